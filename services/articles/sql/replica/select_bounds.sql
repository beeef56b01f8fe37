-- select_bounds: the first and the last second with likes, of one author or ($1 is NULL) of all.
-- Index: likes_by_author, likes_by_second, their ends.
SELECT
    CASE WHEN $1 IS NULL
        THEN (SELECT MIN(second) FROM likes)
        ELSE (SELECT MIN(second) FROM likes WHERE author_id = $1)
    END AS first,
    CASE WHEN $1 IS NULL
        THEN (SELECT MAX(second) FROM likes)
        ELSE (SELECT MAX(second) FROM likes WHERE author_id = $1)
    END AS last;
