-- waiting_scan: the next `:limit` rows of `:topics` behind seq `:after`, up to `:end`: seq, key, and the
-- transaction that wrote the row.
-- Concurrency: reads. A row that a position covers was committed before. Index: outbox_pkey (range).
SELECT
    seq,
    key,
    xid::text
FROM posthaste.outbox
WHERE seq > :after
    AND seq <= :end
    AND topic = ANY (:topics::text[])
ORDER BY seq
LIMIT :limit
