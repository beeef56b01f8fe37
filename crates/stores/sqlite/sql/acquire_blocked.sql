-- acquire_blocked: keys of a shard (?2 of ?3) that a parked message holds back.
-- Concurrency: in the transaction that takes the lease. Index: posthaste_parked_key, covering.
SELECT DISTINCT key
FROM posthaste_parked
WHERE route = ?1
    AND key IS NOT NULL
    AND (state = 'retrying' OR blocks = 1)
    AND bucket % ?3 = ?2
