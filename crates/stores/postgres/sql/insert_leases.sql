-- insert_leases: free leases of epoch `:epoch` for the shards `:indexes` of route `:route`, where there
-- are none.
-- Concurrency: with the route's row locked. Index: lease_pkey.
INSERT INTO posthaste.lease (route, shard, epoch)
SELECT
    :route,
    given.shard,
    :epoch
FROM unnest(:indexes::int8[]) AS given (shard)
ON CONFLICT (route, shard) DO NOTHING
