-- inbox_forget_pages: removes the pages of log `:log` of consumer `:consumer`.
-- Concurrency: this transaction has removed its lanes before. Index: inbox_page_pkey.
DELETE FROM posthaste.inbox_page
WHERE consumer = :consumer AND log = :log
