-- count_statuses: how many transfers there are of each status.
SELECT transaction_status, count(*)
FROM transactions
GROUP BY transaction_status
ORDER BY transaction_status
