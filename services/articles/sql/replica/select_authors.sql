-- select_authors: who was liked at all, and how often, the most liked first.
-- Index: authors_by_likes.
SELECT
    author_id,
    likes
FROM authors
ORDER BY likes DESC, author_id
LIMIT $1;
