-- 0008 exact text: a plain INSERT of text stores it as it is given.
-- Breaking: programs of an earlier version write and read the column that is renamed here. Stop relays and
-- applications that use the library first, or they fail until they are updated. An application that
-- inserts bytes by SQL names the column `payload_binary` from now on.

-- The column `payload` was `bytea`: a string literal, or a parameter whose type the driver leaves open,
-- went through bytea's input function, where a backslash means something. Now it is text, and bytes have
-- a column of their own.
ALTER TABLE posthaste.outbox RENAME COLUMN payload TO payload_binary;
ALTER TABLE posthaste.outbox ALTER COLUMN payload_binary DROP NOT NULL;
ALTER TABLE posthaste.outbox RENAME CONSTRAINT payload_is_at_most_8_mib
    TO payload_binary_is_at_most_8_mib;
ALTER TABLE posthaste.outbox ADD COLUMN payload text;

-- The relay sends text as UTF-8. In a database of another encoding a text may hold what UTF-8 has not,
-- or what is no text: refused here, so that it does not stop the relay.
ALTER TABLE posthaste.outbox
    ADD CONSTRAINT payload_is_at_most_8_mib
        CHECK (octet_length(payload) <= 8388608) NOT VALID,
    ADD CONSTRAINT payload_is_utf_8
        CHECK (
            payload IS NULL
            OR getdatabaseencoding() = 'UTF8'
            OR octet_length(convert_to(payload, 'UTF8')) <= 8388608
        ) NOT VALID,
    -- Bytes given to a column of text become bytea's output without a word: refused. With them goes
    -- the rare text that looks the same, which the function `enqueue` takes.
    ADD CONSTRAINT payload_is_text_and_no_bytea
        CHECK (
            left(payload, 2) <> '\x'
            AND (current_setting('bytea_output') = 'hex' OR strpos(payload, '\') = 0)
        ) NOT VALID,
    ADD CONSTRAINT payload_or_payload_binary_is_given_and_not_both
        CHECK ((payload IS NULL) <> (payload_binary IS NULL)) NOT VALID;

-- The functions write bytes, so that they take any text.
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
    INSERT INTO posthaste.outbox (id, topic, key, type, payload_binary, headers, content_type)
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
    INSERT INTO posthaste.outbox (id, topic, key, type, payload_binary, headers, content_type)
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
    INSERT INTO posthaste.outbox (id, topic, key, type, payload_binary, headers, content_type)
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
    INSERT INTO posthaste.outbox (id, topic, key, type, payload_binary, headers, content_type)
    VALUES (
        message, enqueue.topic, enqueue.key, enqueue.type,
        enqueue.payload,
        enqueue.headers, enqueue.content_type
    );
    RETURN message;
END
$$;
