-- due_followers: messages queued behind seq ?3 of a key, ?4 at most, up to one that blocks it.
-- Concurrency: reads a snapshot, waits for nobody. Index: posthaste_parked_key (range).
SELECT follower.seq
FROM posthaste_parked AS follower
WHERE follower.route = ?1
    AND follower.key = ?2
    AND follower.key IS NOT NULL
    AND (follower.state = 'retrying' OR follower.blocks = 1)
    AND follower.seq > ?3
    AND follower.seq < coalesce(
        (
            SELECT min(blocker.seq)
            FROM posthaste_parked AS blocker
            WHERE blocker.route = ?1
                AND blocker.key = ?2
                AND blocker.key IS NOT NULL
                AND (blocker.state = 'retrying' OR blocker.blocks = 1)
                AND blocker.blocks = 1
                AND blocker.seq > ?3
        ),
        9223372036854775807)
ORDER BY follower.seq
LIMIT ?4
