-- lock_transfer: a transfer; the caller holds the write lock. Index: the primary key.
SELECT transaction_status, amount, from_user_id, to_user_id
FROM transactions
WHERE id = ?1
