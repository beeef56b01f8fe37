-- insert_leases: free leases of route :route, of epoch :epoch, for the shards in the JSON array :indexes;
-- leases that are there already stay.
-- Concurrency: with the route's row locked. Index: primary key.
INSERT INTO posthaste_lease (route, shard, epoch)
SELECT
    :route,
    layout.shard,
    :epoch
FROM JSON_TABLE(:indexes, '$[*]' COLUMNS (shard INT PATH '$')) AS layout
ON DUPLICATE KEY UPDATE posthaste_lease.route = posthaste_lease.route
