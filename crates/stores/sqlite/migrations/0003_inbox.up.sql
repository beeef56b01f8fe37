-- 0003 inbox: what consumers have handled, by id and by position, and what they could not handle.

-- Messages handled, by id. Written in the transaction of the handler.
CREATE TABLE posthaste_inbox (
    consumer TEXT NOT NULL,
    id BLOB NOT NULL,
    at REAL NOT NULL DEFAULT (round((julianday('now') - 2440587.5) * 86400.0, 3)),
    PRIMARY KEY (consumer, id),
    CONSTRAINT posthaste_inbox_consumer CHECK (length(CAST(consumer AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT posthaste_inbox_id CHECK (length(id) = 16)
) STRICT, WITHOUT ROWID;

-- The oldest ids of a consumer, for retention.
CREATE INDEX posthaste_inbox_at ON posthaste_inbox (consumer, at);

-- Messages handled, by position: one row for each log, lane and topic, however many messages.
CREATE TABLE posthaste_inbox_lane (
    consumer TEXT NOT NULL,
    log TEXT NOT NULL,
    lane TEXT NOT NULL,
    topic TEXT NOT NULL,
    watermark TEXT NOT NULL DEFAULT '',
    handled INTEGER NOT NULL DEFAULT 0,
    reordered INTEGER NOT NULL DEFAULT 0,
    impossible INTEGER NOT NULL DEFAULT 0,
    at REAL NOT NULL DEFAULT (round((julianday('now') - 2440587.5) * 86400.0, 3)),
    PRIMARY KEY (consumer, log, lane, topic),
    CONSTRAINT posthaste_inbox_consumer CHECK (length(CAST(consumer AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT posthaste_inbox_lane CHECK (length(CAST(lane AS BLOB)) BETWEEN 1 AND 512)
) STRICT, WITHOUT ROWID;

-- Which logs of a source a consumer takes messages of, by topic; the empty topic is any. Another one
-- appears when the source was restored from a backup: a person accepts it.
CREATE TABLE posthaste_inbox_log (
    consumer TEXT NOT NULL,
    source TEXT NOT NULL,
    log TEXT NOT NULL,
    topic TEXT NOT NULL DEFAULT '',
    accepted_at REAL NOT NULL DEFAULT (round((julianday('now') - 2440587.5) * 86400.0, 3)),
    accepted_by TEXT,
    PRIMARY KEY (consumer, source, topic, log)
) STRICT, WITHOUT ROWID;

-- Messages that a consumer gave up, with a full copy. `retrying` is one that a person sent again and
-- its consumer has not handled yet.
CREATE TABLE posthaste_inbox_dead (
    consumer TEXT NOT NULL,
    id TEXT NOT NULL,
    source TEXT,
    seq INTEGER,
    topic TEXT NOT NULL,
    key TEXT,
    type TEXT,
    headers TEXT,
    content_type TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'dead',
    attempts INTEGER NOT NULL,
    redriven INTEGER NOT NULL DEFAULT 0,
    first_error_class TEXT NOT NULL,
    first_error TEXT NOT NULL,
    last_error_class TEXT NOT NULL,
    last_error TEXT NOT NULL,
    dead_at REAL NOT NULL DEFAULT (round((julianday('now') - 2440587.5) * 86400.0, 3)),
    state_at REAL NOT NULL DEFAULT (round((julianday('now') - 2440587.5) * 86400.0, 3)),
    acted_by TEXT,
    acted_why TEXT,
    payload BLOB NOT NULL,
    PRIMARY KEY (consumer, id),
    CONSTRAINT posthaste_inbox_dead_state CHECK (state IN ('retrying', 'dead', 'discarded')),
    CONSTRAINT posthaste_inbox_dead_acted CHECK (
        (acted_by IS NULL) = (acted_why IS NULL)
        AND (state = 'dead' OR acted_by IS NOT NULL))
) STRICT;

-- What people decide about, what its consumer takes, and what retention removes.
CREATE INDEX posthaste_inbox_dead_state ON posthaste_inbox_dead (consumer, state, state_at);
