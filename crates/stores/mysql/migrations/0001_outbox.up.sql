-- 0001 outbox: what applications write, the log, routes with their leases and progress, relays,
-- parked messages.
-- Every statement may run again: MySQL commits each by itself, so a migration that was cut short
-- goes on where it stopped. Times are UTC, whatever a session's time zone.

-- What applications write. A plain INSERT of (topic, `key`, payload) is all they need. Rows stay
-- here until the sequencer moves them to the log, in the order of `seq`.
-- Texts are one character wider than their limit, so that a session without strict mode, which cuts
-- what is too long, cuts it to something that the limit refuses.
CREATE TABLE IF NOT EXISTS posthaste_outbox (
    seq BIGINT NOT NULL AUTO_INCREMENT,
    id VARCHAR(37) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT (UUID()),
    topic VARCHAR(256) NOT NULL,
    `key` VARCHAR(1025),
    `type` VARCHAR(256),
    headers LONGTEXT,
    content_type VARCHAR(256) NOT NULL DEFAULT 'application/json',
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    payload LONGBLOB NOT NULL,
    -- So that moving can be bounded in bytes without reading payloads.
    payload_bytes INT UNSIGNED AS (OCTET_LENGTH(payload)) STORED,
    PRIMARY KEY (seq),
    CONSTRAINT posthaste_outbox_id CHECK (
        id REGEXP '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$'
        AND OCTET_LENGTH(id) = 36),
    CONSTRAINT posthaste_outbox_topic CHECK (
        OCTET_LENGTH(topic) BETWEEN 1 AND 255 AND topic NOT REGEXP '[\\x00-\\x1F\\x7F]'),
    CONSTRAINT posthaste_outbox_key CHECK (
        OCTET_LENGTH(`key`) BETWEEN 1 AND 1024 AND `key` NOT REGEXP '[\\x00-\\x1F\\x7F]'),
    CONSTRAINT posthaste_outbox_type CHECK (
        OCTET_LENGTH(`type`) BETWEEN 1 AND 255 AND `type` NOT REGEXP '[\\x00-\\x1F\\x7F]'),
    CONSTRAINT posthaste_outbox_content_type CHECK (
        OCTET_LENGTH(content_type) BETWEEN 1 AND 255
        AND content_type NOT REGEXP '[\\x00-\\x1F\\x7F]'),
    CONSTRAINT posthaste_outbox_payload CHECK (OCTET_LENGTH(payload) <= 8388608),
    -- An object of strings. Without its strings, what is left of such a text is `{:,:}`.
    CONSTRAINT posthaste_outbox_headers CHECK (
        headers IS NULL OR (
            JSON_VALID(headers)
            AND REGEXP_REPLACE(headers, '"(?:[^"\\\\]|\\\\.)*+"|\\s', '')
                REGEXP '^\\{(?::(?:,:)*+)?\\}$')),
    -- No control characters, raw or escaped; `\\` is no escape of what follows it.
    CONSTRAINT posthaste_outbox_headers_control CHECK (
        headers IS NULL OR (
            headers NOT REGEXP '[\\x00-\\x08\\x0B\\x0C\\x0E-\\x1F\\x7F]'
            AND REPLACE(headers, '\\\\', '')
                NOT REGEXP '\\\\(?:[bfnrt]|u00[01][0-9A-Fa-f]|u007[Ff])')),
    -- Names: each once, none empty, none above 255 bytes.
    CONSTRAINT posthaste_outbox_headers_names CHECK (
        headers IS NULL OR (
            OCTET_LENGTH(REGEXP_REPLACE(headers, '"(?:[^"\\\\]|\\\\.)*+"|[^:]', ''))
                = JSON_LENGTH(JSON_KEYS(headers))
            AND headers NOT REGEXP '[{,]\\s*""\\s*:'
            AND CONVERT(CAST(headers AS BINARY) USING latin1)
                NOT REGEXP '[{,]\\s*"(?:[^"\\\\]|\\\\u....|\\\\.){256,}+"\\s*:')),
    -- Names and values together, counting an escape as one byte, without the quotes around them.
    CONSTRAINT posthaste_outbox_headers_bytes CHECK (
        headers IS NULL
        OR OCTET_LENGTH(REGEXP_REPLACE(headers, '\\\\u....|\\\\.', '_'))
            - OCTET_LENGTH(REGEXP_REPLACE(headers, '"(?:[^"\\\\]|\\\\.)*+"', ''))
            - 4 * JSON_LENGTH(JSON_KEYS(headers)) <= 65536)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The log: messages in the order they are relayed. One sequencer writes at a time, so the order of
-- `seq` is the order of commits. Texts are their UTF-8 bytes: no collation takes two for one.
CREATE TABLE IF NOT EXISTS posthaste_log (
    seq BIGINT NOT NULL,
    -- Which row of posthaste_outbox it was.
    outbox_seq BIGINT NOT NULL,
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    topic VARBINARY(255) NOT NULL,
    `key` VARBINARY(1024),
    `type` VARBINARY(255),
    headers LONGBLOB,
    content_type VARBINARY(255) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    payload_bytes INT UNSIGNED NOT NULL,
    payload LONGBLOB NOT NULL,
    PRIMARY KEY (seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- One row: the end of the log. Who moves messages holds its lock until commit.
CREATE TABLE IF NOT EXISTS posthaste_sequencer (
    one TINYINT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (one),
    CONSTRAINT posthaste_sequencer_one CHECK (one = 1)
) ENGINE = InnoDB;
INSERT INTO posthaste_sequencer (one, seq)
VALUES (1, 0)
ON DUPLICATE KEY UPDATE one = 1;

-- Routes, and what they are being split into: shards stop at `barrier` before a resize completes.
CREATE TABLE IF NOT EXISTS posthaste_route (
    name VARBINARY(255) NOT NULL,
    topics LONGBLOB NOT NULL,
    shards SMALLINT UNSIGNED NOT NULL,
    resizing_to SMALLINT UNSIGNED,
    barrier VARBINARY(1000),
    PRIMARY KEY (name),
    CONSTRAINT posthaste_route_shards CHECK (shards BETWEEN 1 AND 256),
    CONSTRAINT posthaste_route_resizing CHECK (
        (resizing_to IS NULL) = (barrier IS NULL)
        AND (resizing_to IS NULL OR resizing_to BETWEEN 1 AND 256))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- One lease per shard, there from the start and free while `relay` is NULL.
CREATE TABLE IF NOT EXISTS posthaste_lease (
    route VARBINARY(255) NOT NULL,
    shard SMALLINT UNSIGNED NOT NULL,
    relay CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    epoch BIGINT NOT NULL,
    expires_at DATETIME(6),
    PRIMARY KEY (route, shard),
    CONSTRAINT posthaste_lease_held CHECK ((relay IS NULL) = (expires_at IS NULL))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- How far each shard has read: rows are only added; the highest (epoch, n) counts.
CREATE TABLE IF NOT EXISTS posthaste_progress (
    route VARBINARY(255) NOT NULL,
    shard SMALLINT UNSIGNED NOT NULL,
    epoch BIGINT NOT NULL,
    n BIGINT NOT NULL,
    position VARBINARY(1000) NOT NULL,
    seq BIGINT NOT NULL,
    at DATETIME(6) NOT NULL,
    PRIMARY KEY (route, shard, epoch, n)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Relays that said they are there.
CREATE TABLE IF NOT EXISTS posthaste_relay (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name LONGBLOB NOT NULL,
    version LONGBLOB NOT NULL,
    routes LONGBLOB NOT NULL,
    started_at DATETIME(6) NOT NULL,
    seen_at DATETIME(6) NOT NULL,
    expires_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Messages put aside, each with its copy. A row holds back later ones of its key while it is
-- retrying, or dead and blocking; only the first of a key has a next attempt.
CREATE TABLE IF NOT EXISTS posthaste_parked (
    route VARBINARY(255) NOT NULL,
    seq BIGINT NOT NULL,
    bucket INT UNSIGNED NOT NULL,
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    topic VARBINARY(255) NOT NULL,
    `key` VARBINARY(1024),
    `type` VARBINARY(255),
    headers LONGBLOB,
    content_type VARBINARY(255) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    state VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    blocks TINYINT NOT NULL DEFAULT 0,
    attempts INT UNSIGNED NOT NULL DEFAULT 0,
    unknowns INT UNSIGNED NOT NULL DEFAULT 0,
    redriven INT UNSIGNED NOT NULL DEFAULT 0,
    first_error_class VARBINARY(255),
    first_error BLOB,
    last_error_class VARBINARY(255),
    last_error BLOB,
    parked_at DATETIME(6) NOT NULL,
    state_at DATETIME(6) NOT NULL,
    next_attempt_at DATETIME(6),
    acted_by BLOB,
    acted_why BLOB,
    payload_bytes INT UNSIGNED NOT NULL,
    payload LONGBLOB NOT NULL,
    -- The key while the row holds it back, and while it has an attempt planned: what other
    -- databases have partial indexes for.
    held_key VARBINARY(1024) AS (IF(state = 'retrying' OR blocks = 1, `key`, NULL)) STORED,
    planned_key VARBINARY(1024) AS (IF(next_attempt_at IS NULL, NULL, `key`)) STORED,
    PRIMARY KEY (route, seq),
    -- What is due, by time.
    INDEX posthaste_parked_due (route, next_attempt_at),
    -- What holds back a key, in its order.
    INDEX posthaste_parked_held (route, held_key, seq),
    -- What of a key has an attempt planned.
    INDEX posthaste_parked_planned (route, planned_key),
    -- Dead letters, and counts by state.
    INDEX posthaste_parked_state (state, route, state_at),
    -- Any parked message by its id.
    INDEX posthaste_parked_id (id),
    CONSTRAINT posthaste_parked_state CHECK (state IN ('retrying', 'dead', 'discarded')),
    CONSTRAINT posthaste_parked_blocks CHECK (blocks = 0 OR (blocks = 1 AND state = 'dead')),
    CONSTRAINT posthaste_parked_next CHECK (next_attempt_at IS NULL OR state = 'retrying'),
    CONSTRAINT posthaste_parked_acted CHECK (
        (acted_by IS NULL) = (acted_why IS NULL)
        AND (state <> 'discarded' OR acted_by IS NOT NULL)),
    CONSTRAINT posthaste_parked_errors CHECK (
        (first_error_class IS NULL) = (first_error IS NULL)
        AND (last_error_class IS NULL) = (last_error IS NULL))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
