-- begin: those of the transfers $1 that wait are being settled from now on. Concurrency: passes over those
-- that somebody has locked, so it waits for nobody; not even for the disk, since it only informs.
-- Index: the primary key.
WITH waiting AS (
    SELECT id, set_config('synchronous_commit', 'off', true)
    FROM transactions
    WHERE id = ANY ($1) AND transaction_status = 'PENDING'
    FOR UPDATE SKIP LOCKED
)
UPDATE transactions
SET transaction_status = 'PROCESSING'
FROM waiting
WHERE transactions.id = waiting.id
