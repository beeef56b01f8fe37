-- find: a transfer's status. Index: the primary key.
SELECT transaction_status
FROM transactions
WHERE id = ?1
