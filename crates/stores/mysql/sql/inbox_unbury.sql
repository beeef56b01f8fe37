-- inbox_unbury: removes the redriven dead letter :id of consumer :consumer, which is being handled.
-- Concurrency: waits for another that does so, and then finds none. Index: primary key.
DELETE FROM posthaste_inbox_dead
WHERE id = :id AND consumer = :consumer AND state = 'retrying'
