-- due_sizes: payload bytes of the parked messages of the seqs in the JSON array ?2.
-- Concurrency: reads a snapshot. Index: primary key.
SELECT
    seq,
    octet_length(payload)
FROM posthaste_parked
WHERE route = ?1 AND seq IN (SELECT value FROM json_each(?2))
