-- delete_leases: ends every lease of route ?, for a new layout.
-- Concurrency: with route and leases locked; whoever waits for a row finds it gone.
-- Index: primary key (range).
DELETE FROM posthaste_lease
WHERE route = ?
