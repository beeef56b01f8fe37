-- open_balance: a user's balance, locked; 0 for a new user. Concurrency: callers take two users in the
-- order of their ids, so that transfers in opposite directions cannot wait for each other for ever.
INSERT INTO balances AS b (user_id)
VALUES ($1)
ON CONFLICT (user_id) DO UPDATE SET balance = b.balance
RETURNING balance::text
