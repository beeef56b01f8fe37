-- waiting_scan: the next rows of the log after seq :after, up to seq :end, whose topic is in the JSON array
-- :topics (in hex); :limit at most. Rows have no version.
-- Concurrency: with route and leases locked. Index: primary key (range).
SELECT
    seq,
    `key`,
    NULL
FROM posthaste_log
WHERE seq > :after
    AND seq <= :end
    AND topic IN (
        SELECT UNHEX(wanted.hex)
        FROM JSON_TABLE(:topics, '$[*]' COLUMNS (hex VARCHAR(512) PATH '$')) AS wanted)
ORDER BY seq
LIMIT :limit
