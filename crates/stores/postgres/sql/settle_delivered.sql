-- settle_delivered: removes the parked messages `:seqs` of route `:route`, which were acknowledged.
-- Concurrency: under the lease's fence. A message that a person discarded meanwhile stays on record.
-- Index: parked_pkey.
DELETE FROM posthaste.parked
WHERE route = :route
    AND seq = ANY (:seqs::int8[])
    AND state <> 'discarded'
