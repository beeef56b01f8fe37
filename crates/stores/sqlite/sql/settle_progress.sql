-- settle_progress: appends how far a shard has read, and says the entry's number.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
INSERT INTO posthaste_progress (route, shard, epoch, n, position, seq, at)
SELECT
    ?1,
    ?2,
    ?3,
    coalesce(max(n), 0) + 1,
    ?4,
    ?5,
    ?6
FROM posthaste_progress
WHERE route = ?1 AND shard = ?2 AND epoch = ?3
RETURNING n
