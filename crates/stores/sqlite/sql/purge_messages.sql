-- purge_messages: removes the rows of the seqs in the JSON array :seqs, up to seq :floor.
-- Concurrency: in the transaction that read the floor :floor. Index: primary key (one lookup a row).
DELETE FROM posthaste_outbox
WHERE seq IN (SELECT value FROM json_each(:seqs)) AND seq <= :floor
