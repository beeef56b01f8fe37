-- list_balances: every balance, as text, for it can exceed 64 bits.
SELECT user_id, balance::text
FROM balances
WHERE balance <> 0
ORDER BY user_id
