-- inbox_forget_log: lanes of log ? of consumer ?.
-- Concurrency: waits for whoever handles one of them. Index: primary key.
DELETE FROM posthaste_inbox_lane
WHERE consumer = ? AND log = ?
