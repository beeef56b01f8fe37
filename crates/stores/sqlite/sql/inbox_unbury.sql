-- inbox_unbury: removes the redriven dead letter :id of consumer :consumer, which is being handled.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
DELETE FROM posthaste_inbox_dead
WHERE consumer = :consumer AND id = :id AND state = 'retrying'
