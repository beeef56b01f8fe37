-- settle_keys: the keys of the parked messages `:seqs` of route `:route`.
-- Concurrency: under the lease's fence.
-- Index: parked_pkey. Looked up one by one: nothing is known about the table when much was just parked.
SELECT DISTINCT message.key
FROM unnest(:seqs::int8[]) AS given (seq)
CROSS JOIN LATERAL (
    SELECT parked.key
    FROM posthaste.parked
    WHERE parked.route = :route AND parked.seq = given.seq
    LIMIT 1
) AS message
WHERE message.key IS NOT NULL
