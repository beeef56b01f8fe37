-- count_refused: how many messages were no likes as agreed.
SELECT COUNT(*)
FROM refused;
