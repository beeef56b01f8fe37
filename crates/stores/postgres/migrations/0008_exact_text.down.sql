-- 0008 exact text, undone. Text that waits becomes bytes; writers wait while it is rewritten.

ALTER TABLE posthaste.outbox
    DROP CONSTRAINT payload_or_payload_binary_is_given_and_not_both,
    DROP CONSTRAINT payload_is_text_and_no_bytea,
    DROP CONSTRAINT payload_is_utf_8,
    DROP CONSTRAINT payload_is_at_most_8_mib;
UPDATE posthaste.outbox SET payload_binary = convert_to(payload, 'UTF8') WHERE payload IS NOT NULL;
ALTER TABLE posthaste.outbox DROP COLUMN payload;
ALTER TABLE posthaste.outbox RENAME COLUMN payload_binary TO payload;
ALTER TABLE posthaste.outbox ALTER COLUMN payload SET NOT NULL;
ALTER TABLE posthaste.outbox RENAME CONSTRAINT payload_binary_is_at_most_8_mib
    TO payload_is_at_most_8_mib;

CREATE OR REPLACE FUNCTION posthaste.enqueue(
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
CREATE OR REPLACE FUNCTION posthaste.enqueue(
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
CREATE OR REPLACE FUNCTION posthaste.enqueue(
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
CREATE OR REPLACE FUNCTION posthaste.enqueue(
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
