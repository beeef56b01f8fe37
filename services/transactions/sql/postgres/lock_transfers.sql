-- lock_transfers: the transfers $1, which nobody else can settle until this transaction ends. Concurrency:
-- locked in the order of their ids, so that two who want the same cannot wait for each other for ever.
-- Index: the primary key.
SELECT id, transaction_status, amount, from_user_id, to_user_id
FROM transactions
WHERE id = ANY ($1)
ORDER BY id
FOR UPDATE
