-- fetch_payloads: the payloads of the seqs in the JSON array :seqs, which fetch_scan left out.
-- Concurrency: reads a snapshot. Rows never change, so it need not be that of fetch_scan.
-- Index: primary key (one lookup a message).
SELECT
    seq,
    payload
FROM posthaste_outbox
WHERE seq IN (SELECT value FROM json_each(:seqs))
