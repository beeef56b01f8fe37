-- inbox_unbury: removes the redriven dead letter $2 of consumer $1, which is being handled.
-- Concurrency: waits for another that does so, and then finds none. Index: inbox_dead_pkey.
DELETE FROM posthaste.inbox_dead
WHERE consumer = $1 AND id = $2 AND state = 'retrying'
