-- open_balances: the balances of the users $1, locked; 0 for a new user. Concurrency: $1 is sorted, so that
-- transfers in opposite directions cannot wait for each other for ever.
INSERT INTO balances AS b (user_id)
SELECT user_id
FROM unnest($1::text[]) AS given (user_id)
ON CONFLICT (user_id) DO UPDATE SET balance = b.balance
RETURNING user_id, balance::text
