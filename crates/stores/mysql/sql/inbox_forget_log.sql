-- inbox_forget_log: removes the lanes of log :log of consumer :consumer.
-- Concurrency: waits for whoever handles one of them. Index: primary key.
DELETE FROM posthaste_inbox_lane
WHERE consumer = :consumer AND log = UNHEX(REPLACE(:log, '-', ''))
