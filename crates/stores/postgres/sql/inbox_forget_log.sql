-- inbox_forget_log: removes the lanes of log `:log` of consumer `:consumer`.
-- Concurrency: waits for whoever handles one of them. Index: inbox_lane_pkey.
DELETE FROM posthaste.inbox_lane
WHERE consumer = :consumer AND log = :log
