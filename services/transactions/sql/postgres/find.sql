-- find: the status of each of the transfers $1 that is there. Index: the primary key.
SELECT id, transaction_status
FROM transactions
WHERE id = ANY ($1)
