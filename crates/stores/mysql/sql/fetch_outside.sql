-- fetch_outside: whether the outbox holds messages that are not in the log yet.
-- Concurrency: reads, waits for nobody. Index: primary key (its first entry).
SELECT EXISTS (SELECT 1 FROM posthaste_outbox)
