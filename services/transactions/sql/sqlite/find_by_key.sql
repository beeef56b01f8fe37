-- find_by_key: what a sender used a key for. Index: transactions_key.
SELECT id, transaction_status, fingerprint
FROM transactions
WHERE from_user_id = ?1 AND idempotency_key = ?2
