-- purge_messages: removes the rows of the seqs in the JSON array ?1, up to seq ?2.
-- Concurrency: in the transaction that read the floor ?2. Index: primary key (one lookup a row).
DELETE FROM posthaste_outbox
WHERE seq IN (SELECT value FROM json_each(?1)) AND seq <= ?2
