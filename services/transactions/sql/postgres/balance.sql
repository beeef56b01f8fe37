-- balance: the settled balance of each of the users $1 who has one, as text, for it can exceed 64 bits.
-- Index: the primary key.
SELECT user_id, balance::text
FROM balances
WHERE user_id = ANY ($1)
