-- beat: a relay (id ?, name ?, version ?, routes ?, those of them it has paused ?) is there for another
-- ? microseconds; name, version, routes, paused ones and microseconds again for one that was there
-- before.
-- Concurrency: one row; only the relay itself writes it. Index: primary key.
INSERT INTO posthaste_relay (id, name, version, routes, paused, started_at, seen_at, expires_at)
VALUES (
    ?, ?, ?, ?, ?,
    UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)
ON DUPLICATE KEY UPDATE
    name = ?,
    version = ?,
    routes = ?,
    paused = ?,
    seen_at = UTC_TIMESTAMP(6),
    expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
