-- count_settled: transfers that are final.
SELECT count(*)
FROM transactions
WHERE transaction_status IN ('COMPLETED', 'FAILED')
