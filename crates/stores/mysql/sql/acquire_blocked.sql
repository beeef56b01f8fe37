-- acquire_blocked: keys of route ? that a parked message holds back, of ? shards the one of index ?.
-- Concurrency: complete once the lease is taken. Index: posthaste_parked_held.
SELECT DISTINCT held_key
FROM posthaste_parked
WHERE route = ?
    AND held_key IS NOT NULL
    AND bucket MOD ? = ?
