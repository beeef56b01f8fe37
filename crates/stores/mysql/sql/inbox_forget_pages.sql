-- inbox_forget_pages: pages of log ? of consumer ?.
-- Concurrency: its lanes are removed by this transaction before. Index: primary key.
DELETE FROM posthaste_inbox_page
WHERE consumer = ? AND log = ?
