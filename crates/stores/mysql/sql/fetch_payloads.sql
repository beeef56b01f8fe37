-- fetch_payloads: the payloads of the seqs in the JSON array :seqs.
-- Concurrency: reads. A row that retention removed meanwhile is simply not there.
-- Index: primary key (one lookup a row).
SELECT
    log.seq,
    log.payload
FROM JSON_TABLE(:seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS wanted
STRAIGHT_JOIN posthaste_log AS log FORCE INDEX (PRIMARY) ON log.seq = wanted.seq
