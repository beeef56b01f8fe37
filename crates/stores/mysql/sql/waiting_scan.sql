-- waiting_scan: the next rows after seq ?, up to seq ?, whose topic, in hex, is in the JSON array ?;
-- ? at most.
-- Concurrency: with route and leases locked. Index: primary key (range).
SELECT
    seq,
    `key`
FROM posthaste_log
WHERE seq > ?
    AND seq <= ?
    AND topic IN (
        SELECT UNHEX(wanted.hex)
        FROM JSON_TABLE(?, '$[*]' COLUMNS (hex VARCHAR(512) PATH '$')) AS wanted)
ORDER BY seq
LIMIT ?
