-- settle: a locked transfer's last status.
UPDATE transactions
SET transaction_status = $2, processed_at = now()
WHERE id = $1
