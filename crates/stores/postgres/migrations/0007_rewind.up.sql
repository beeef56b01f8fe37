-- 0007 rewind: how relays notice that the log went back in time, and when they did.

-- The line of history this server is on: its system identifier and its timeline, which changes when a
-- standby is promoted or a backup is rolled forward. NULL on a standby.
CREATE FUNCTION posthaste.lineage() RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN
        (SELECT system_identifier::text FROM pg_catalog.pg_control_system()) || '/'
        || pg_catalog.substr(
            pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)
    END
$$;

-- The highest seq that was handed out, whatever became of its row. With the owner's rights: reading a
-- sequence is a right of its own, which relays would not need for anything else.
CREATE FUNCTION posthaste.seq_last() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM posthaste.outbox_seq_seq
$$;

-- Times at which a relay found that the log had gone back.
CREATE TABLE posthaste.rewind (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    route text NOT NULL,
    relay uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
