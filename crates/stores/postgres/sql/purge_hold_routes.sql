-- purge_hold_routes: no route is registered or changed until this transaction ends.
-- Concurrency: waits for registrations that change something, and they for it; those that change
-- nothing, taking leases and settling are not concerned. Index: none.
LOCK TABLE posthaste.route IN SHARE MODE
