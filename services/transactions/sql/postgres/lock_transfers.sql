-- lock_transfers: the transfers $1, which nobody else can settle until this transaction ends. Concurrency:
-- the inbox has made sure that nobody else handles the same events. Index: the primary key.
SELECT id, transaction_status, amount, from_user_id, to_user_id
FROM transactions
WHERE id = ANY ($1)
FOR UPDATE
