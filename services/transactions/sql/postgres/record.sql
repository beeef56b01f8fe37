-- record: one transfer, unless its sender has used the key. Concurrency: of two at once the second waits
-- for the first to end. Index: transactions_key.
INSERT INTO transactions (id, amount, description, from_user_id, to_user_id, idempotency_key, fingerprint)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (from_user_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
