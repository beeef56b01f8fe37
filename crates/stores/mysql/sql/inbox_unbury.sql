-- inbox_unbury: removes the redriven dead letter ? of consumer ?, which is being handled.
-- Concurrency: waits for another that does so, and then finds none. Index: primary key.
DELETE FROM posthaste_inbox_dead
WHERE id = ? AND consumer = ? AND state = 'retrying'
