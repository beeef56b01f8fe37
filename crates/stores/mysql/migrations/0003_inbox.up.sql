-- 0003 inbox: what consumers have handled, by id and by position, and what they could not handle.
-- Every statement may run again. Texts are their UTF-8 bytes: no collation takes two for one.

-- Messages handled, by id. Written in the transaction of the handler.
CREATE TABLE IF NOT EXISTS posthaste_inbox (
    consumer VARBINARY(255) NOT NULL,
    id BINARY(16) NOT NULL,
    at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (consumer, id),
    -- The oldest ids of a consumer, for retention.
    INDEX posthaste_inbox_at (consumer, at),
    CONSTRAINT posthaste_inbox_consumer CHECK (OCTET_LENGTH(consumer) > 0)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Messages handled, by position: one row for each log, lane and topic, however many messages.
CREATE TABLE IF NOT EXISTS posthaste_inbox_lane (
    consumer VARBINARY(255) NOT NULL,
    log BINARY(16) NOT NULL,
    lane VARBINARY(512) NOT NULL,
    topic VARBINARY(255) NOT NULL,
    watermark LONGBLOB NOT NULL,
    handled BIGINT NOT NULL DEFAULT 0,
    reordered BIGINT NOT NULL DEFAULT 0,
    impossible BIGINT NOT NULL DEFAULT 0,
    at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (consumer, log, lane, topic),
    CONSTRAINT posthaste_inbox_lane_names CHECK (
        OCTET_LENGTH(consumer) > 0 AND OCTET_LENGTH(lane) > 0)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Which logs of a source a consumer takes messages of, by topic; the empty topic is any. Another one
-- appears when the source was restored from a backup: a person accepts it.
CREATE TABLE IF NOT EXISTS posthaste_inbox_log (
    consumer VARBINARY(255) NOT NULL,
    source VARBINARY(512) NOT NULL,
    log BINARY(16) NOT NULL,
    topic VARBINARY(255) NOT NULL DEFAULT '',
    accepted_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    accepted_by BLOB,
    PRIMARY KEY (consumer, source, topic, log)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Messages that a consumer gave up, with a full copy. `retrying` is one that a person sent again and
-- its consumer has not handled yet.
CREATE TABLE IF NOT EXISTS posthaste_inbox_dead (
    consumer VARBINARY(255) NOT NULL,
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    source VARBINARY(512),
    seq BIGINT,
    topic VARBINARY(255) NOT NULL,
    `key` VARBINARY(1024),
    `type` VARBINARY(255),
    headers LONGBLOB,
    content_type VARBINARY(255) NOT NULL,
    state VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'dead',
    attempts INT UNSIGNED NOT NULL,
    redriven INT UNSIGNED NOT NULL DEFAULT 0,
    first_error_class VARBINARY(255) NOT NULL,
    first_error BLOB NOT NULL,
    last_error_class VARBINARY(255) NOT NULL,
    last_error BLOB NOT NULL,
    dead_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    state_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    acted_by BLOB,
    acted_why BLOB,
    payload LONGBLOB NOT NULL,
    PRIMARY KEY (consumer, id),
    -- What people decide about, what its consumer takes, and what retention removes.
    INDEX posthaste_inbox_dead_state (consumer, state, state_at),
    CONSTRAINT posthaste_inbox_dead_state CHECK (state IN ('retrying', 'dead', 'discarded')),
    CONSTRAINT posthaste_inbox_dead_acted CHECK (
        (acted_by IS NULL) = (acted_why IS NULL)
        AND (state = 'dead' OR acted_by IS NOT NULL))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
