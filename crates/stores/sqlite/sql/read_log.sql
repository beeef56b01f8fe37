-- read_log: the identity of a route's log.
-- Concurrency: in the transaction that takes the lease. Index: primary key.
SELECT log
FROM posthaste_identity
WHERE route = ?1
