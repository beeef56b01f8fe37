-- inbox_unbury: removes the redriven dead letter ?2 of consumer ?1, which is being handled.
-- Concurrency: in the caller's transaction, which holds the write lock. Index: primary key.
DELETE FROM posthaste_inbox_dead
WHERE consumer = ?1 AND id = ?2 AND state = 'retrying'
