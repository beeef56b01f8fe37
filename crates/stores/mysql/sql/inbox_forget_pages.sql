-- inbox_forget_pages: removes the pages of log :log of consumer :consumer.
-- Concurrency: this transaction has removed its lanes. Index: primary key.
DELETE FROM posthaste_inbox_page
WHERE consumer = :consumer AND log = UNHEX(REPLACE(:log, '-', ''))
