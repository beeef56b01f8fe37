-- inbox_record: records the ids of the JSON array :ids for consumer :consumer, in the order of the array.
-- Not INSERT IGNORE, which takes every error for a row that is there. The least change there is makes
-- such a row count as two rows affected, while a new one counts as one.
-- Concurrency: waits for whoever records one of them in an open transaction. Index: primary key.
INSERT INTO posthaste_inbox (consumer, id)
SELECT
    :consumer,
    UNHEX(REPLACE(given.id, '-', ''))
FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id CHAR(36) CHARACTER SET ascii PATH '$')) AS given
ON DUPLICATE KEY UPDATE posthaste_inbox.at = posthaste_inbox.at + INTERVAL 1 MICROSECOND
