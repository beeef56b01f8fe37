-- write_route: writes all columns of route `:route`: `:topics` (a JSON array), also as LIKE patterns,
-- `:shards`, and the resize under way: `:resizing_to` shards once all have stopped at `:barrier`, or NULLs.
-- Concurrency: with the route's row locked. Index: route_pkey.
UPDATE posthaste.route
SET
    topics = ARRAY(SELECT topic FROM json_array_elements_text(:topics::json) AS topic),
    likes = ARRAY(
        SELECT replace(regexp_replace(topic, '([\\%_])', '\\\1', 'g'), '*', '%')
        FROM json_array_elements_text(:topics::json) AS topic
    ),
    shards = :shards,
    resizing_to = :resizing_to,
    barrier = :barrier
WHERE name = :route
