-- select_bounds: the first and the last second an author was liked in, NULL where there is none.
-- Index: article_likes_by_author, its two ends.
SELECT
    (SELECT MIN(second) FROM article_likes WHERE author_id = $1) AS first,
    (SELECT MAX(second) FROM article_likes WHERE author_id = $1) AS last;
