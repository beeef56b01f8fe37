-- move_balance: a user's new balance, computed by the caller, who holds the write lock.
INSERT INTO balances (user_id, balance)
VALUES (?1, ?2)
ON CONFLICT (user_id) DO UPDATE SET balance = excluded.balance
