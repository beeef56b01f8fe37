-- purge_discarded: removes the discarded messages of the seqs in the JSON array :seqs.
-- Concurrency: in the transaction that chose them. Index: primary key.
DELETE FROM posthaste_parked
WHERE route = :route AND seq IN (SELECT value FROM json_each(:seqs)) AND state = 'discarded'
