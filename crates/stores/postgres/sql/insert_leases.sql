-- insert_leases: the leases of a route, free. $2 shards, $3 their epoch.
-- Concurrency: with the route's row locked. Index: lease_pkey.
INSERT INTO posthaste.lease (route, shard, epoch)
SELECT $1, shard, $3
FROM generate_series(0, $2::int - 1) AS shard
ON CONFLICT (route, shard) DO NOTHING
