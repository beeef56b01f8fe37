-- 0001 outbox: the log, routes with their leases and progress, and parked messages.

CREATE SCHEMA IF NOT EXISTS posthaste;

-- Which migrations have run.
CREATE TABLE posthaste.migration (
    number int PRIMARY KEY,
    name text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Facts about this installation. `system_identifier` names the server whose transaction ids the
-- recorded positions speak of.
CREATE TABLE posthaste.meta (
    key text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO posthaste.meta (key, value)
SELECT 'system_identifier', system_identifier::text
FROM pg_control_system();

-- Headers are an object of strings. They are kept as `json`, not `jsonb`, because that keeps the
-- order in which they were given; hence names given twice have to be refused here.
CREATE FUNCTION posthaste.headers_valid(headers json) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE json_typeof(headers) WHEN 'object' THEN (
        SELECT count(*) = count(DISTINCT key)
            AND coalesce(sum(octet_length(key) + octet_length(value #>> '{}')), 0) <= 65536
            AND coalesce(bool_and(
                json_typeof(value) = 'string'
                AND octet_length(key) BETWEEN 1 AND 255
                AND key !~ '[\u0001-\u001f\u007f]'
                AND (value #>> '{}') !~ '[\u0001-\u001f\u007f]'
            ), true)
        FROM json_each(headers)
    ) ELSE false END
$$;

-- The log. `xid` comes before `seq` because defaults are evaluated in column order: a transaction
-- has its id before it draws a seq, which is what makes reading by snapshot complete.
-- Written once, never updated; a plain INSERT of (topic, key, payload) is all an application needs.
CREATE TABLE posthaste.outbox (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    topic text NOT NULL,
    key text,
    type text,
    payload bytea NOT NULL,
    headers json,
    content_type text NOT NULL DEFAULT 'application/json',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT topic_is_1_to_255_bytes_without_control_characters
        CHECK (octet_length(topic) BETWEEN 1 AND 255 AND topic !~ '[\u0001-\u001f\u007f]'),
    CONSTRAINT key_is_null_or_1_to_1024_bytes_without_control_chars
        CHECK (octet_length(key) BETWEEN 1 AND 1024 AND key !~ '[\u0001-\u001f\u007f]'),
    CONSTRAINT type_is_null_or_1_to_255_bytes_without_control_chars
        CHECK (octet_length(type) BETWEEN 1 AND 255 AND type !~ '[\u0001-\u001f\u007f]'),
    CONSTRAINT content_type_is_1_to_255_bytes_without_control_chars
        CHECK (octet_length(content_type) BETWEEN 1 AND 255
            AND content_type !~ '[\u0001-\u001f\u007f]'),
    CONSTRAINT payload_is_at_most_8_mib
        CHECK (octet_length(payload) <= 8388608),
    CONSTRAINT headers_is_an_object_of_strings_within_limits
        CHECK (headers IS NULL OR posthaste.headers_valid(headers))
);
-- Finds rows whose transaction committed after a position was taken.
CREATE INDEX outbox_xid ON posthaste.outbox (xid);

-- Routes. `likes` is `topics` as LIKE patterns. While `resizing_to` is set, the present shards read
-- no further than `barrier`.
CREATE TABLE posthaste.route (
    name text PRIMARY KEY,
    topics text[] NOT NULL,
    likes text[] NOT NULL,
    shards int NOT NULL CHECK (shards BETWEEN 1 AND 256),
    resizing_to int CHECK (resizing_to BETWEEN 1 AND 256),
    barrier text,
    CONSTRAINT barrier_exactly_while_resizing CHECK ((resizing_to IS NULL) = (barrier IS NULL))
);

-- The right to serve a shard. Fenced by (relay, epoch); expiry is by this server's clock.
CREATE TABLE posthaste.lease (
    route text NOT NULL REFERENCES posthaste.route (name),
    shard int NOT NULL,
    relay uuid,
    epoch bigint NOT NULL DEFAULT 0,
    expires_at timestamptz,
    PRIMARY KEY (route, shard),
    CONSTRAINT expiry_exactly_while_held CHECK ((relay IS NULL) = (expires_at IS NULL))
) WITH (fillfactor = 50);

-- How far a shard has read: a journal, because a row updated at this rate would bloat behind any
-- long-running reader. The latest row is the one of the highest (epoch, n).
CREATE TABLE posthaste.progress (
    route text NOT NULL,
    shard int NOT NULL,
    epoch bigint NOT NULL,
    n bigint GENERATED ALWAYS AS IDENTITY,
    position text NOT NULL,
    seq bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (route, shard, epoch, n)
);

-- Relays that are there.
CREATE TABLE posthaste.relay (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    routes text[] NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Messages put aside, with a full copy: the log may forget them. A retrying row that waits behind
-- another of its key has no `next_attempt_at`.
CREATE TABLE posthaste.parked (
    route text NOT NULL,
    seq bigint NOT NULL,
    bucket int NOT NULL,
    id uuid NOT NULL,
    topic text NOT NULL,
    key text,
    type text,
    payload bytea NOT NULL,
    headers json,
    content_type text NOT NULL,
    created_at timestamptz NOT NULL,
    state text NOT NULL CHECK (state IN ('retrying', 'dead', 'discarded')),
    blocks boolean NOT NULL DEFAULT false,
    attempts int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    unknowns int NOT NULL DEFAULT 0 CHECK (unknowns >= 0),
    redriven int NOT NULL DEFAULT 0 CHECK (redriven >= 0),
    first_error_class text,
    first_error text,
    last_error_class text,
    last_error text,
    parked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    state_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_attempt_at timestamptz,
    acted_by text,
    acted_why text,
    PRIMARY KEY (route, seq),
    CONSTRAINT only_dead_letters_block CHECK (NOT blocks OR state = 'dead'),
    CONSTRAINT only_retrying_has_a_next_attempt
        CHECK (next_attempt_at IS NULL OR state = 'retrying'),
    CONSTRAINT discarded_by_someone_for_a_reason CHECK (state <> 'discarded' OR acted_by IS NOT NULL),
    CONSTRAINT acts_have_a_name_and_a_reason CHECK ((acted_by IS NULL) = (acted_why IS NULL)),
    CONSTRAINT errors_have_a_class_and_a_detail CHECK (
        (first_error IS NULL) = (first_error_class IS NULL)
        AND (last_error IS NULL) = (last_error_class IS NULL)
        AND (first_error IS NULL) = (last_error IS NULL)
    )
);
-- What is due.
CREATE INDEX parked_due ON posthaste.parked (route, next_attempt_at)
    WHERE state = 'retrying' AND next_attempt_at IS NOT NULL;
-- What holds back a key, in the key's order.
CREATE INDEX parked_key ON posthaste.parked (route, key, seq)
    WHERE state = 'retrying' OR blocks;
-- Dead letters for people.
CREATE INDEX parked_dead ON posthaste.parked (route, seq)
    WHERE state = 'dead';
-- Any parked message by its id.
CREATE INDEX parked_id ON posthaste.parked (id);
-- Discarded dead letters, for retention.
CREATE INDEX parked_discarded ON posthaste.parked (state_at)
    WHERE state = 'discarded';
