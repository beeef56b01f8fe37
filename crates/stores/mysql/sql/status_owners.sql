-- status_owners: the first name behind :after that parked messages belong to; NULL behind the last.
-- Concurrency: reads. Index: primary key (its first entry after the name).
SELECT MIN(route)
FROM posthaste_parked
WHERE route > :after
