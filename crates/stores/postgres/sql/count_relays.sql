-- count_relays: how many relays serve each of the routes, in the order given.
-- Concurrency: reads. Index: none, a row per running relay.
SELECT (
    SELECT count(*)
    FROM posthaste.relay
    WHERE asked.route = ANY (relay.routes) AND relay.expires_at > clock_timestamp()
)
FROM unnest($1::text[]) WITH ORDINALITY AS asked (route, n)
ORDER BY asked.n
