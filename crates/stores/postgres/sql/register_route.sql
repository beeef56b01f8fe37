-- register_route: adds route `:route` with `:topics` (a JSON array) and `:shards`; a route that is there
-- already stays as it is. `likes` has the topics as LIKE patterns.
-- Concurrency: waits for another that registers it at the same time. Index: route_pkey.
INSERT INTO posthaste.route (name, topics, likes, shards)
VALUES (
    :route,
    ARRAY(SELECT topic FROM json_array_elements_text(:topics::json) AS topic),
    ARRAY(
        SELECT replace(regexp_replace(topic, '([\\%_])', '\\\1', 'g'), '*', '%')
        FROM json_array_elements_text(:topics::json) AS topic
    ),
    :shards
)
ON CONFLICT (name) DO NOTHING
