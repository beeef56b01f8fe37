-- 0004 exact enqueue, bounded calls: indexes so that no call gets slower as tables grow. Text given to
-- `payload` is stored as it is (docs/reference/mysql.md), so there is no function to enqueue.
-- Every statement may run again; MySQL has no CREATE INDEX IF NOT EXISTS.

-- Parked messages that may still come, in order; however many were discarded.
SET @posthaste_index = IF(
    EXISTS (
        SELECT 1
        FROM information_schema.statistics
        WHERE table_schema = DATABASE()
            AND table_name = 'posthaste_parked'
            AND index_name = 'posthaste_parked_undelivered'
    ),
    'DO 0',
    'CREATE INDEX posthaste_parked_undelivered ON posthaste_parked (route, state, seq, bucket)');
PREPARE posthaste_index FROM @posthaste_index;
EXECUTE posthaste_index;
DEALLOCATE PREPARE posthaste_index;

-- Dead letters of all routes for people, in order.
SET @posthaste_index = IF(
    EXISTS (
        SELECT 1
        FROM information_schema.statistics
        WHERE table_schema = DATABASE()
            AND table_name = 'posthaste_parked'
            AND index_name = 'posthaste_parked_dead'
    ),
    'DO 0',
    'CREATE INDEX posthaste_parked_dead ON posthaste_parked (state, seq, route)');
PREPARE posthaste_index FROM @posthaste_index;
EXECUTE posthaste_index;
DEALLOCATE PREPARE posthaste_index;
