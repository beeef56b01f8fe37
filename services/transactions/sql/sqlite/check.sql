-- check: whether the tables are there.
SELECT 1
FROM transactions
LIMIT 1
