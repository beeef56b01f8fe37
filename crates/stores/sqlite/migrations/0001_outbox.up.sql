-- 0001 outbox: the log, routes with their leases and progress, relays, parked messages.
-- Applications may write with any SQLite from 3.38 on: nothing an INSERT runs needs a newer one.
-- Times are seconds since 1970 (UTC, milliseconds) by SQLite's clock.

-- The log. SQLite has one writer, so the order of seq is the order of commits.
-- `payload` takes TEXT or BLOB and gives the same bytes back, hence ANY. It is the last column so
-- that all others can be read without it.
CREATE TABLE posthaste_outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL DEFAULT (lower(
        hex(randomblob(4)) || '-' || hex(randomblob(2))
        || '-4' || substr(hex(randomblob(2)), 2)
        || '-' || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2)
        || '-' || hex(randomblob(6)))),
    topic TEXT NOT NULL,
    key TEXT,
    type TEXT,
    headers TEXT,
    content_type TEXT NOT NULL DEFAULT 'application/json',
    created_at REAL NOT NULL DEFAULT (round((julianday('now') - 2440587.5) * 86400.0, 3)),
    payload ANY NOT NULL,
    CONSTRAINT posthaste_outbox_seq CHECK (seq > 0),
    CONSTRAINT posthaste_outbox_id CHECK (
        length(CAST(id AS BLOB)) = 36
        AND id GLOB '????????-????-????-????-????????????'
        AND id NOT GLOB '*[^0-9A-Fa-f-]*'
        AND length(replace(id, '-', '')) = 32),
    CONSTRAINT posthaste_outbox_topic CHECK (
        length(CAST(topic AS BLOB)) BETWEEN 1 AND 255
        AND instr(topic, char(0)) = 0
        AND topic NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'),
    CONSTRAINT posthaste_outbox_key CHECK (
        length(CAST(key AS BLOB)) BETWEEN 1 AND 1024
        AND instr(key, char(0)) = 0
        AND key NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'),
    CONSTRAINT posthaste_outbox_type CHECK (
        length(CAST(type AS BLOB)) BETWEEN 1 AND 255
        AND instr(type, char(0)) = 0
        AND type NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'),
    -- An escaped NUL ends a text where SQLite decodes it, so it is looked for before decoding.
    CONSTRAINT posthaste_outbox_headers CHECK (
        CASE WHEN json_valid(headers)
            THEN json_type(headers) = 'object'
                AND instr(replace(headers, '\\', ''), '\u0000') = 0
            ELSE headers IS NULL
        END),
    CONSTRAINT posthaste_outbox_content_type CHECK (
        length(CAST(content_type AS BLOB)) BETWEEN 1 AND 255
        AND instr(content_type, char(0)) = 0
        AND content_type NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'),
    CONSTRAINT posthaste_outbox_created_at CHECK (created_at BETWEEN 0 AND 253402300799),
    CONSTRAINT posthaste_outbox_payload CHECK (
        CASE typeof(payload)
            WHEN 'blob' THEN length(payload) <= 8388608
            WHEN 'text' THEN length(CAST(payload AS BLOB)) <= 8388608
            ELSE 0
        END)
) STRICT;

-- Every header is a name with a string. A CHECK cannot look inside, as it may not hold a query.
-- The last condition finds half a surrogate pair, which no text can hold.
CREATE TRIGGER posthaste_outbox_headers
AFTER INSERT ON posthaste_outbox
WHEN NEW.headers IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'posthaste_outbox_headers')
    FROM json_each(NEW.headers) AS header
    WHERE header.type <> 'text'
        OR length(CAST(header.key AS BLOB)) NOT BETWEEN 1 AND 255
        OR instr(header.key || header.value, char(0)) > 0
        OR header.key || header.value
            GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
        OR (header.key || header.value GLOB '*' || char(65533) || '*'
            AND instr(header.key || header.value, char(65533)) = 0);
    SELECT RAISE(ABORT, 'posthaste_outbox_headers')
    WHERE (
        SELECT
            count(*) <> count(DISTINCT header.key)
            OR sum(length(CAST(header.key || header.value AS BLOB))) > 65536
        FROM json_each(NEW.headers) AS header);
END;

-- A seq chosen by hand below the end of the log would never be read.
CREATE TRIGGER posthaste_outbox_seq
AFTER INSERT ON posthaste_outbox
WHEN NEW.seq <= (SELECT seq FROM sqlite_sequence WHERE name = 'posthaste_outbox')
BEGIN
    SELECT RAISE(ABORT, 'posthaste_outbox_seq');
END;

-- Routes, and what they are being split into: shards stop at `barrier` before a resize completes.
CREATE TABLE posthaste_route (
    name TEXT NOT NULL PRIMARY KEY,
    topics TEXT NOT NULL,
    shards INTEGER NOT NULL,
    resizing_to INTEGER,
    barrier TEXT,
    CONSTRAINT posthaste_route_name CHECK (length(name) > 0),
    CONSTRAINT posthaste_route_topics CHECK (json_valid(topics) AND json_type(topics) = 'array'),
    CONSTRAINT posthaste_route_shards CHECK (shards BETWEEN 1 AND 256),
    CONSTRAINT posthaste_route_resizing CHECK (
        (resizing_to IS NULL) = (barrier IS NULL)
        AND (resizing_to IS NULL OR resizing_to BETWEEN 1 AND 256))
) STRICT, WITHOUT ROWID;

-- One lease per shard, there from the start and free while `relay` is NULL.
CREATE TABLE posthaste_lease (
    route TEXT NOT NULL REFERENCES posthaste_route (name) ON DELETE CASCADE,
    shard INTEGER NOT NULL,
    relay TEXT,
    epoch INTEGER NOT NULL,
    expires_at REAL,
    PRIMARY KEY (route, shard),
    CONSTRAINT posthaste_lease_held CHECK ((relay IS NULL) = (expires_at IS NULL))
) STRICT, WITHOUT ROWID;

-- How far each shard has read: rows are only added; the highest (epoch, n) counts.
CREATE TABLE posthaste_progress (
    route TEXT NOT NULL REFERENCES posthaste_route (name) ON DELETE CASCADE,
    shard INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    n INTEGER NOT NULL,
    position TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (route, shard, epoch, n)
) STRICT, WITHOUT ROWID;

-- Relays that said they are there.
CREATE TABLE posthaste_relay (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    routes TEXT NOT NULL,
    started_at REAL NOT NULL,
    seen_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    CONSTRAINT posthaste_relay_routes CHECK (json_valid(routes) AND json_type(routes) = 'array')
) STRICT, WITHOUT ROWID;

-- Messages put aside, each with its copy. A row holds back later ones of its key while it is
-- retrying, or dead and blocking; only the first of a key has a next attempt.
CREATE TABLE posthaste_parked (
    route TEXT NOT NULL,
    seq INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    id TEXT NOT NULL,
    topic TEXT NOT NULL,
    key TEXT,
    type TEXT,
    headers TEXT,
    content_type TEXT NOT NULL,
    created_at REAL NOT NULL,
    state TEXT NOT NULL,
    blocks INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    unknowns INTEGER NOT NULL,
    redriven INTEGER NOT NULL DEFAULT 0,
    first_error_class TEXT,
    first_error TEXT,
    last_error_class TEXT,
    last_error TEXT,
    parked_at REAL NOT NULL,
    state_at REAL NOT NULL,
    next_attempt_at REAL,
    acted_by TEXT,
    acted_why TEXT,
    payload BLOB NOT NULL,
    PRIMARY KEY (route, seq),
    CONSTRAINT posthaste_parked_state CHECK (state IN ('retrying', 'dead', 'discarded')),
    CONSTRAINT posthaste_parked_blocks CHECK (blocks = 0 OR (blocks = 1 AND state = 'dead')),
    CONSTRAINT posthaste_parked_next CHECK (next_attempt_at IS NULL OR state = 'retrying'),
    CONSTRAINT posthaste_parked_acted CHECK (
        (acted_by IS NULL) = (acted_why IS NULL)
        AND (state <> 'discarded' OR acted_by IS NOT NULL)),
    CONSTRAINT posthaste_parked_errors CHECK (
        (first_error_class IS NULL) = (first_error IS NULL)
        AND (last_error_class IS NULL) = (last_error IS NULL))
) STRICT;

-- What is due, by time.
CREATE INDEX posthaste_parked_due ON posthaste_parked (route, next_attempt_at)
WHERE next_attempt_at IS NOT NULL;

-- The first of each key that has an attempt planned.
CREATE INDEX posthaste_parked_head ON posthaste_parked (route, key)
WHERE next_attempt_at IS NOT NULL AND key IS NOT NULL;

-- What holds back a key, in its order.
CREATE INDEX posthaste_parked_key ON posthaste_parked (route, key, seq, bucket)
WHERE key IS NOT NULL AND (state = 'retrying' OR blocks = 1);

-- Dead letters, and counts by state.
CREATE INDEX posthaste_parked_state ON posthaste_parked (state, route, state_at);
