-- beat: says that relay `:relay`, called `:name`, of version `:version`, serves `:routes` (a JSON array)
-- until `:ttl` microseconds from now, and which of them it has paused (`:paused`).
-- Concurrency: its own row only. Index: relay_pkey.
INSERT INTO posthaste.relay (id, name, version, routes, expires_at, paused)
VALUES (
    :relay,
    :name,
    :version,
    ARRAY(SELECT route FROM json_array_elements_text(:routes::json) AS route),
    clock_timestamp() + :ttl * interval '1 microsecond',
    :paused
)
ON CONFLICT (id) DO UPDATE
SET
    name = excluded.name,
    version = excluded.version,
    routes = excluded.routes,
    seen_at = clock_timestamp(),
    expires_at = excluded.expires_at,
    paused = excluded.paused
