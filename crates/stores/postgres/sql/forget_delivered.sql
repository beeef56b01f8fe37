-- forget_delivered: removes parked messages that were acknowledged; their keys come back.
-- Concurrency: under the lease's fence. What a person discarded meanwhile stays on record.
-- Index: parked_pkey.
DELETE FROM posthaste.parked
WHERE route = $1 AND seq = ANY ($2) AND state <> 'discarded'
RETURNING key
