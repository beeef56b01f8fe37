-- insert_leases: free leases of route ?, of epoch ?, for the shards in the JSON array ?; those that
-- are there already stay.
-- Concurrency: with the route's row locked. Index: primary key.
INSERT INTO posthaste_lease (route, shard, epoch)
SELECT
    ?,
    layout.shard,
    ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (shard INT PATH '$')) AS layout
ON DUPLICATE KEY UPDATE posthaste_lease.route = posthaste_lease.route
