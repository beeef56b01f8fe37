-- beat: relay :relay (name :name, version :version, routes :routes, paused routes :paused) is there for
-- another :ttl.
-- Concurrency: one row; only the relay itself writes it. Index: primary key.
INSERT INTO posthaste_relay (id, name, version, routes, paused, started_at, seen_at, expires_at)
VALUES (
    :relay, :name, :version, :routes, :paused,
    UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL :ttl MICROSECOND)
ON DUPLICATE KEY UPDATE
    name = :name,
    version = :version,
    routes = :routes,
    paused = :paused,
    seen_at = UTC_TIMESTAMP(6),
    expires_at = UTC_TIMESTAMP(6) + INTERVAL :ttl MICROSECOND
