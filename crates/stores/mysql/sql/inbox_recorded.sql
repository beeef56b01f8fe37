-- inbox_recorded: those ids of the JSON array :ids that are recorded for consumer :consumer.
-- Concurrency: reads what is committed. Index: primary key (one lookup an id).
SELECT inbox.id
FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id CHAR(36) CHARACTER SET ascii PATH '$')) AS given
STRAIGHT_JOIN posthaste_inbox AS inbox FORCE INDEX (PRIMARY)
    ON inbox.consumer = :consumer AND inbox.id = UNHEX(REPLACE(given.id, '-', ''))
