-- inbox_forget_log: lanes of log $2 of consumer $1.
-- Concurrency: waits for whoever handles one of them. Index: inbox_lane_pkey.
DELETE FROM posthaste.inbox_lane
WHERE consumer = $1 AND log = $2
