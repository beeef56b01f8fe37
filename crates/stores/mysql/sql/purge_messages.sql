-- purge_messages: removes the rows of the seqs in the JSON array :seqs, up to seq :floor.
-- Concurrency: rows that every route has passed, so only another cleaner can be in the way.
-- Index: primary key (one lookup a row).
DELETE log
FROM JSON_TABLE(:seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS done
STRAIGHT_JOIN posthaste_log AS log FORCE INDEX (PRIMARY) ON log.seq = done.seq
WHERE log.seq <= :floor
