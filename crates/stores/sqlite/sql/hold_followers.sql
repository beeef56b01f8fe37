-- hold_followers: takes the planned attempt from every message, of the keys in the JSON array :keys,
-- that has an older one before it.
-- Concurrency: in the transaction that changed the keys. Index: posthaste_parked_head to find them
-- (told so, since it would rather walk all that is planned), posthaste_parked_key to look before.
UPDATE posthaste_parked AS follower INDEXED BY posthaste_parked_head
SET next_attempt_at = NULL
WHERE follower.route = :route
    AND follower.key IN (SELECT value FROM json_each(:keys))
    AND follower.key IS NOT NULL
    AND follower.next_attempt_at IS NOT NULL
    AND EXISTS (
        SELECT 1
        FROM posthaste_parked AS held
        WHERE held.route = :route
            AND held.key = follower.key
            AND held.key IS NOT NULL
            AND (held.state = 'retrying' OR held.blocks = 1)
            AND held.seq < follower.seq)
