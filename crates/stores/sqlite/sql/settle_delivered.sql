-- settle_delivered: forgets the parked messages of the seqs in the JSON array ?2.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
DELETE FROM posthaste_parked
WHERE route = ?1 AND seq IN (SELECT value FROM json_each(?2))
