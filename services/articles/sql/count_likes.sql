-- count_likes: an author's likes from a second up to and without another, by stretches of $4 seconds
-- that begin at $2. Stretches without likes have no row.
-- Index: article_likes_by_author, which holds all it reads.
SELECT
    (second - $2) / $4 AS stretch,
    COUNT(*) AS likes
FROM article_likes
WHERE
    author_id = $1
    AND second >= $2
    AND second < $3
GROUP BY 1
ORDER BY 1;
