-- status_owners: the next name after :after that parked messages belong to; NULL after the last.
-- Concurrency: reads a snapshot, waits for nobody. Index: primary key (its first entry after the name).
SELECT min(route)
FROM posthaste_parked
WHERE route > :after
