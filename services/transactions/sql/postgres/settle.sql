-- settle: the last statuses of the locked transfers $1, of which $2 have failed, and the balances $4 of the
-- locked users $3. Index: the primary keys. Not by a join: a plan made while the table was small would
-- read all of it.
WITH moved AS (
    UPDATE balances
    SET balance = given.balance::numeric
    FROM unnest($3::text[], $4::text[]) AS given (user_id, balance)
    WHERE balances.user_id = given.user_id
)
UPDATE transactions
SET
    transaction_status = CASE WHEN id = ANY ($2) THEN 'FAILED' ELSE 'COMPLETED' END,
    processed_at = now()
WHERE id = ANY ($1)
