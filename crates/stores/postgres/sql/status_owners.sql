-- status_owners: the next name after `:after` that parked messages belong to; NULL after the last.
-- Concurrency: reads. Index: parked_pkey (its first entry after the name).
SELECT min(route)
FROM posthaste.parked
WHERE route > :after
