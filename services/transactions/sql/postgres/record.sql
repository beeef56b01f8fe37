-- record: transfers, except those whose sender has used the key, here or before; the ids of those that are
-- new. Concurrency: where two record the same key at once, the second waits for the first to end; given
-- sorted by sender and key, so that they cannot wait for each other for ever. Index: transactions_key.
INSERT INTO transactions (id, amount, description, from_user_id, to_user_id, idempotency_key, fingerprint)
SELECT id, amount, description, from_user_id, to_user_id, idempotency_key, fingerprint
FROM unnest(
    $1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[]
) AS given (id, amount, description, from_user_id, to_user_id, idempotency_key, fingerprint)
ON CONFLICT (from_user_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING id
