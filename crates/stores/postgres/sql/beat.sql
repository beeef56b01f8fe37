-- beat: says that a relay is there until $5 seconds from now, and which routes it has paused ($6).
-- Concurrency: its own row only. Index: relay_pkey.
INSERT INTO posthaste.relay (id, name, version, routes, expires_at, paused)
VALUES ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5), $6)
ON CONFLICT (id) DO UPDATE
SET
    name = excluded.name,
    version = excluded.version,
    routes = excluded.routes,
    seen_at = clock_timestamp(),
    expires_at = excluded.expires_at,
    paused = excluded.paused
