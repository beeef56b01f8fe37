-- inbox_forget_pages: pages of log :log of consumer :consumer.
-- Concurrency: its lanes are removed by this transaction before. Index: primary key.
DELETE FROM posthaste_inbox_page
WHERE consumer = :consumer AND log = :log
