-- 0004 exact enqueue, bounded calls: a function that enqueues any text as it is, and indexes so that no
-- call gets slower as tables grow.
-- Writers of the outbox wait while outbox_late is built: about 1.3 s for a million rows. Where that is
-- too long, run this first:
-- CREATE INDEX CONCURRENTLY outbox_late ON posthaste.outbox (xid, (seq + 0));

-- `posthaste.enqueue(topic, key, payload)` writes a message and returns its id. A string given to the
-- column `payload` itself would be read as bytea's input, where a backslash means something; given to
-- the function it is text, and its UTF-8 bytes are stored. The functions run with the caller's rights
-- and name everything by its schema, so no search_path changes what they do.
-- A string literal, and a parameter whose type the driver leaves open, are text.
CREATE FUNCTION posthaste.enqueue(
    topic text,
    key text,
    payload text,
    type text DEFAULT NULL,
    headers json DEFAULT NULL,
    content_type text DEFAULT 'application/json',
    id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    message uuid := coalesce(enqueue.id, pg_catalog.gen_random_uuid());
BEGIN
    INSERT INTO posthaste.outbox (id, topic, key, type, payload, headers, content_type)
    VALUES (
        message, enqueue.topic, enqueue.key, enqueue.type,
        pg_catalog.convert_to(enqueue.payload, 'UTF8'),
        enqueue.headers, enqueue.content_type
    );
    RETURN message;
END
$$;

-- The JSON text as it was given.
CREATE FUNCTION posthaste.enqueue(
    topic text,
    key text,
    payload json,
    type text DEFAULT NULL,
    headers json DEFAULT NULL,
    content_type text DEFAULT 'application/json',
    id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    message uuid := coalesce(enqueue.id, pg_catalog.gen_random_uuid());
BEGIN
    INSERT INTO posthaste.outbox (id, topic, key, type, payload, headers, content_type)
    VALUES (
        message, enqueue.topic, enqueue.key, enqueue.type,
        pg_catalog.convert_to(enqueue.payload::pg_catalog.text, 'UTF8'),
        enqueue.headers, enqueue.content_type
    );
    RETURN message;
END
$$;

-- The JSON text as PostgreSQL writes it: spaces and the order of names are not kept.
CREATE FUNCTION posthaste.enqueue(
    topic text,
    key text,
    payload jsonb,
    type text DEFAULT NULL,
    headers json DEFAULT NULL,
    content_type text DEFAULT 'application/json',
    id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    message uuid := coalesce(enqueue.id, pg_catalog.gen_random_uuid());
BEGIN
    INSERT INTO posthaste.outbox (id, topic, key, type, payload, headers, content_type)
    VALUES (
        message, enqueue.topic, enqueue.key, enqueue.type,
        pg_catalog.convert_to(enqueue.payload::pg_catalog.text, 'UTF8'),
        enqueue.headers, enqueue.content_type
    );
    RETURN message;
END
$$;

-- The bytes themselves.
CREATE FUNCTION posthaste.enqueue(
    topic text,
    key text,
    payload bytea,
    type text DEFAULT NULL,
    headers json DEFAULT NULL,
    content_type text DEFAULT 'application/json',
    id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY INVOKER AS $$
DECLARE
    message uuid := coalesce(enqueue.id, pg_catalog.gen_random_uuid());
BEGIN
    INSERT INTO posthaste.outbox (id, topic, key, type, payload, headers, content_type)
    VALUES (
        message, enqueue.topic, enqueue.key, enqueue.type,
        enqueue.payload,
        enqueue.headers, enqueue.content_type
    );
    RETURN message;
END
$$;

-- Finds rows whose transaction committed after a position was taken, up to the position's seq. The
-- second column is an expression so that no other index suits the search; see fetch.
CREATE INDEX IF NOT EXISTS outbox_late ON posthaste.outbox (xid, (seq + 0));
DROP INDEX posthaste.outbox_xid;

-- Parked messages that may still come, in order; however many were discarded.
CREATE INDEX parked_undelivered ON posthaste.parked (route, seq)
    WHERE state <> 'discarded';
-- Dead letters of all routes for people, in order.
CREATE INDEX parked_dead_all ON posthaste.parked (seq, route)
    WHERE state = 'dead';
