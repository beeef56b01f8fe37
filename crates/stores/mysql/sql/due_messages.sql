-- due_messages: the retrying messages of the seqs in the JSON array :seqs, of route :route.
-- Concurrency: reads; messages that were settled since due_heads are left out. Index: primary key.
SELECT
    parked.seq,
    parked.id,
    parked.topic,
    parked.`key`,
    parked.`type`,
    parked.headers,
    parked.content_type,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', parked.created_at),
    parked.payload,
    parked.attempts,
    parked.unknowns,
    parked.redriven,
    TIMESTAMPDIFF(MICROSECOND, parked.created_at, UTC_TIMESTAMP(6))
FROM JSON_TABLE(:seqs, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS due
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = :route AND parked.seq = due.seq
WHERE parked.state = 'retrying'
