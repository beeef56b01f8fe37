-- beat_relay: a relay is there for another ?5 seconds, and has paused the routes ?6.
-- Concurrency: one row; only the relay itself writes it. Index: primary key.
INSERT INTO posthaste_relay (id, name, version, routes, started_at, seen_at, expires_at, paused)
VALUES (
    ?1, ?2, ?3, ?4,
    unixepoch('subsec'), unixepoch('subsec'), unixepoch('subsec') + ?5, ?6)
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name,
    version = excluded.version,
    routes = excluded.routes,
    seen_at = excluded.seen_at,
    expires_at = excluded.expires_at,
    paused = excluded.paused
