-- settle: the last statuses $2 of the locked transfers $1, and the balances $4 of the locked users $3.
WITH moved AS (
    UPDATE balances
    SET balance = given.balance::numeric
    FROM unnest($3::text[], $4::text[]) AS given (user_id, balance)
    WHERE balances.user_id = given.user_id
)
UPDATE transactions
SET transaction_status = given.status, processed_at = now()
FROM unnest($1::uuid[], $2::text[]) AS given (id, status)
WHERE transactions.id = given.id
