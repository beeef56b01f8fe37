-- due_messages: those of the parked messages `:seqs` of route `:route` that are retrying.
-- Concurrency: reads; a message that was settled since due is left out.
-- Index: parked_pkey. Looked up one by one: nothing is known about the table when much was just parked.
SELECT
    message.seq,
    message.id,
    message.topic,
    message.key,
    message.type,
    message.headers::text,
    message.content_type,
    (extract(epoch FROM message.created_at) * 1000000)::int8,
    message.payload,
    message.attempts,
    message.unknowns,
    message.redriven,
    (extract(epoch FROM clock_timestamp() - message.created_at) * 1000000)::int8
FROM unnest(:seqs::int8[]) AS due (seq)
CROSS JOIN LATERAL (
    SELECT
        parked.seq, parked.id, parked.topic, parked.key, parked.type, parked.headers,
        parked.content_type, parked.created_at, parked.payload, parked.attempts, parked.unknowns,
        parked.redriven, parked.state
    FROM posthaste.parked
    WHERE parked.route = :route AND parked.seq = due.seq
    LIMIT 1
) AS message
WHERE message.state = 'retrying'
