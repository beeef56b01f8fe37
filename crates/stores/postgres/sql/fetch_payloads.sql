-- fetch_payloads: the payloads of the rows `:seqs`, which fetch left out because they are large.
-- Concurrency: takes no lock. A row that retention removed meanwhile is simply not there.
-- Index: outbox_pkey.
SELECT
    seq,
    coalesce(payload_binary, convert_to(payload, 'UTF8'))
FROM posthaste.outbox
WHERE seq = ANY (:seqs::int8[])
