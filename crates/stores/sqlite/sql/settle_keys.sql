-- settle_keys: the keys of the parked messages of the seqs in the JSON array :seqs.
-- Concurrency: behind the fence, in its transaction. Index: primary key.
SELECT DISTINCT key
FROM posthaste_parked
WHERE route = :route AND seq IN (SELECT value FROM json_each(:seqs)) AND key IS NOT NULL
