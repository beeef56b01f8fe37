-- mark_routes: writes that routes are being changed, or messages removed by the routes there are.
-- Concurrency: with the routes locked. Nodes of a Galera cluster do not share locks: a registration on
-- one and a purge on another both write this row, and one of the two is undone. The row is of no
-- route, so nobody reads it. Index: primary key.
INSERT INTO posthaste_progress (route, shard, epoch, n, position, seq, at)
VALUES ('', 0, 0, 0, '', 0, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE at = UTC_TIMESTAMP(6)
