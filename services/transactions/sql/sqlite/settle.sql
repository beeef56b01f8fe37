-- settle: a transfer's last status; the caller holds the write lock.
UPDATE transactions
SET transaction_status = ?2, processed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = ?1
