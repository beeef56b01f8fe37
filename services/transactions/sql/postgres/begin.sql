-- begin: a transfer that waits is being settled from now on. Index: the primary key.
UPDATE transactions
SET transaction_status = 'PROCESSING'
WHERE id = $1 AND transaction_status = 'PENDING'
