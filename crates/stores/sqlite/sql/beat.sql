-- beat: a relay is there for another :ttl microseconds, and has paused the routes :paused.
-- Concurrency: one row; only the relay itself writes it. Index: primary key.
INSERT INTO posthaste_relay (id, name, version, routes, started_at, seen_at, expires_at, paused)
VALUES (
    :relay, :name, :version, :routes,
    unixepoch('subsec'), unixepoch('subsec'), unixepoch('subsec') + :ttl / 1000000.0, :paused)
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name,
    version = excluded.version,
    routes = excluded.routes,
    seen_at = excluded.seen_at,
    expires_at = excluded.expires_at,
    paused = excluded.paused
