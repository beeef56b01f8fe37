-- 0003 inbox: what consumers have handled, by id and by position, and what they could not handle.

-- Messages handled, by id. Written in the transaction of the handler.
CREATE TABLE posthaste.inbox (
    consumer text NOT NULL,
    id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, id),
    CONSTRAINT consumer_is_1_to_255_bytes CHECK (octet_length(consumer) BETWEEN 1 AND 255)
);
-- The oldest ids of a consumer, for retention.
CREATE INDEX inbox_at ON posthaste.inbox (consumer, at);

-- Messages handled, by position: one row for each log, lane and topic, however many messages.
CREATE TABLE posthaste.inbox_lane (
    consumer text NOT NULL,
    log uuid NOT NULL,
    lane text NOT NULL,
    topic text NOT NULL,
    watermark text NOT NULL DEFAULT '',
    handled bigint NOT NULL DEFAULT 0,
    reordered bigint NOT NULL DEFAULT 0,
    impossible bigint NOT NULL DEFAULT 0,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, log, lane, topic),
    CONSTRAINT consumer_is_1_to_255_bytes CHECK (octet_length(consumer) BETWEEN 1 AND 255),
    CONSTRAINT lane_is_1_to_512_bytes CHECK (octet_length(lane) BETWEEN 1 AND 512)
) WITH (fillfactor = 50);

-- Which logs of a source a consumer takes messages of, by topic; the empty topic is any. Another one
-- appears when the source was restored from a backup: a person accepts it.
CREATE TABLE posthaste.inbox_log (
    consumer text NOT NULL,
    source text NOT NULL,
    log uuid NOT NULL,
    topic text NOT NULL DEFAULT '',
    accepted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted_by text,
    PRIMARY KEY (consumer, source, topic, log)
);

-- Messages that a consumer gave up, with a full copy. `retrying` is one that a person sent again and
-- its consumer has not handled yet.
CREATE TABLE posthaste.inbox_dead (
    consumer text NOT NULL,
    id uuid NOT NULL,
    source text,
    seq bigint,
    topic text NOT NULL,
    key text,
    type text,
    payload bytea NOT NULL,
    headers json,
    content_type text NOT NULL,
    state text NOT NULL DEFAULT 'dead' CHECK (state IN ('retrying', 'dead', 'discarded')),
    attempts int NOT NULL CHECK (attempts >= 0),
    redriven int NOT NULL DEFAULT 0 CHECK (redriven >= 0),
    first_error_class text NOT NULL,
    first_error text NOT NULL,
    last_error_class text NOT NULL,
    last_error text NOT NULL,
    dead_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    state_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    acted_by text,
    acted_why text,
    PRIMARY KEY (consumer, id),
    CONSTRAINT acts_have_a_name_and_a_reason CHECK ((acted_by IS NULL) = (acted_why IS NULL)),
    CONSTRAINT decided_by_someone CHECK (state = 'dead' OR acted_by IS NOT NULL)
);
-- What people decide about, what its consumer takes, and what retention removes.
CREATE INDEX inbox_dead_state ON posthaste.inbox_dead (consumer, state, state_at);
