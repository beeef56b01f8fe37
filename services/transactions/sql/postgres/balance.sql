-- balance: a user's settled balance, as text, for it can exceed 64 bits. Index: the primary key.
SELECT balance::text
FROM balances
WHERE user_id = $1
