-- inbox_forget_pages: pages of log $2 of consumer $1.
-- Concurrency: its lanes are removed by this transaction before. Index: inbox_page_pkey.
DELETE FROM posthaste.inbox_page
WHERE consumer = $1 AND log = $2
