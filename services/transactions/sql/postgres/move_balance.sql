-- move_balance: adds to a balance that open_balance has locked.
UPDATE balances
SET balance = balance + $2::numeric
WHERE user_id = $1
