-- due_followers: messages queued behind seq :head of a key, :limit at most, up to one that blocks it.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_key (range).
SELECT
    follower.seq,
    octet_length(follower.payload)
FROM posthaste_parked AS follower
WHERE follower.route = :route
    AND follower.key = :key
    AND follower.key IS NOT NULL
    AND (follower.state = 'retrying' OR follower.blocks = 1)
    AND follower.seq > :head
    AND follower.seq < coalesce(
        (
            SELECT min(blocker.seq)
            FROM posthaste_parked AS blocker
            WHERE blocker.route = :route
                AND blocker.key = :key
                AND blocker.key IS NOT NULL
                AND (blocker.state = 'retrying' OR blocker.blocks = 1)
                AND blocker.blocks = 1
                AND blocker.seq > :head
        ),
        9223372036854775807)
ORDER BY follower.seq
LIMIT :limit
