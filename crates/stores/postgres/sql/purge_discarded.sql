-- purge_discarded: removes the discarded messages `:seqs` of route `:route`.
-- Concurrency: this transaction has locked them (purge_discarded_scan).
-- Index: parked_pkey. Looked up one by one and by ctid, whatever is known about the table.
DELETE FROM posthaste.parked
WHERE ctid = ANY (ARRAY(
        SELECT letter.ctid
        FROM unnest(:seqs::int8[]) AS given (seq)
        CROSS JOIN LATERAL (
            SELECT parked.ctid
            FROM posthaste.parked
            WHERE parked.route = :route AND parked.seq = given.seq
            LIMIT 1
        ) AS letter
    ))
    AND state = 'discarded'
