-- inbox_unbury: removes the redriven dead letter `:id` of consumer `:consumer`, which is being handled.
-- Concurrency: waits for another that does so, and then finds none. Index: inbox_dead_pkey.
DELETE FROM posthaste.inbox_dead
WHERE consumer = :consumer AND id = :id AND state = 'retrying'
