-- beat_count: how many relays serve each route of the JSON array ?1, in its order.
-- Concurrency: in the transaction of beat_relay. Index: none (one row a relay).
SELECT (
    SELECT count(*)
    FROM posthaste_relay AS relay
    WHERE relay.expires_at > unixepoch('subsec')
        AND EXISTS (SELECT 1 FROM json_each(relay.routes) AS served WHERE served.value = asked.value))
FROM json_each(?1) AS asked
ORDER BY asked.key
