-- due_followers: messages of route :route that are queued for key :key behind seq :head, up to the first
-- one that blocks the key; :limit at most.
-- Concurrency: reads. Index: posthaste_parked_held (range).
SELECT
    follower.seq,
    follower.payload_bytes
FROM posthaste_parked AS follower
WHERE follower.route = :route
    AND follower.held_key = :key
    AND follower.seq > :head
    AND follower.seq < COALESCE(
        (
            SELECT MIN(blocker.seq)
            FROM posthaste_parked AS blocker
            WHERE blocker.route = :route
                AND blocker.held_key = :key
                AND blocker.seq > :head
                AND blocker.blocks = 1
        ),
        9223372036854775807)
ORDER BY follower.seq
LIMIT :limit
