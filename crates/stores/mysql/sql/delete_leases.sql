-- delete_leases: removes every lease of route :route, for a new layout.
-- Concurrency: with route and leases locked; whoever waits for a row finds it gone.
-- Index: primary key (range).
DELETE FROM posthaste_lease
WHERE route = :route
