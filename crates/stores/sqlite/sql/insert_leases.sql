-- insert_leases: a free lease for each shard in the JSON array :indexes, under epoch :epoch, unless there is
-- one.
-- Concurrency: in the transaction that makes the layout. Index: primary key.
INSERT INTO posthaste_lease (route, shard, epoch)
SELECT
    :route,
    value,
    :epoch
FROM json_each(:indexes)
WHERE true
ON CONFLICT (route, shard) DO NOTHING
