-- status_owners: the next name after ? that parked messages belong to; NULL after the last.
-- Concurrency: reads. Index: primary key (its first entry after the name).
SELECT MIN(route)
FROM posthaste_parked
WHERE route > ?
