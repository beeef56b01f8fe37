-- lock_transfer: a transfer nobody else can settle until this transaction ends. Index: the primary key.
SELECT transaction_status, amount, from_user_id, to_user_id
FROM transactions
WHERE id = $1
FOR UPDATE
