-- count_likes: likes by author from a second up to and without another, by stretches of $4 seconds
-- that begin at $2, of one author or ($1 is NULL) of all. Stretches without likes have no row.
-- Index: likes_by_second, which holds all it reads.
SELECT
    author_id,
    (second - $2) / $4 AS stretch,
    COUNT(*) AS likes
FROM likes
WHERE
    second >= $2
    AND second < $3
    AND ($1 IS NULL OR author_id = $1)
GROUP BY 1, 2
ORDER BY 1, 2;
