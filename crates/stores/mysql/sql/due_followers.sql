-- due_followers: messages queued in route ? for key ? behind seq ?, up to the first one that blocks
-- it (route ?, key ?, seq ? again), ? at most.
-- Concurrency: reads. Index: posthaste_parked_held (range).
SELECT
    follower.seq,
    follower.payload_bytes
FROM posthaste_parked AS follower
WHERE follower.route = ?
    AND follower.held_key = ?
    AND follower.seq > ?
    AND follower.seq < COALESCE(
        (
            SELECT MIN(blocker.seq)
            FROM posthaste_parked AS blocker
            WHERE blocker.route = ?
                AND blocker.held_key = ?
                AND blocker.seq > ?
                AND blocker.blocks = 1
        ),
        9223372036854775807)
ORDER BY follower.seq
LIMIT ?
