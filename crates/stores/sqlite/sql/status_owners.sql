-- status_owners: the next name after ?1 that parked messages belong to; NULL after the last.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (its first entry after the name).
SELECT min(route)
FROM posthaste_parked
WHERE route > ?1
