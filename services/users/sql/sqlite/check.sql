-- check: whether the tables are there.
SELECT 1
FROM users
LIMIT 1
