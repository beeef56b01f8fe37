-- 0006 trouble: what `status` tells of routes that do not get on. Which message has been retrying longest
-- is found by posthaste_parked_state.

-- The routes that the relay has paused, and why: a JSON array that only people read. Added only where it
-- is missing: a server that ends between this statement and the record of the migration runs it again,
-- and MySQL has no ADD COLUMN IF NOT EXISTS.
SET @posthaste_ddl = IF(
    (
        SELECT COUNT(*)
        FROM information_schema.columns
        WHERE table_schema = DATABASE()
            AND table_name = 'posthaste_relay'
            AND column_name = 'paused'
    ) = 0,
    'ALTER TABLE posthaste_relay ADD COLUMN paused MEDIUMBLOB',
    'DO 0');
PREPARE posthaste_ddl FROM @posthaste_ddl;
EXECUTE posthaste_ddl;
DEALLOCATE PREPARE posthaste_ddl;
