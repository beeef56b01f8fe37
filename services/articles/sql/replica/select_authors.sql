-- select_authors: who was liked at all, and how often.
-- Index: likes_by_author.
SELECT
    author_id,
    COUNT(*) AS likes
FROM likes
GROUP BY author_id
ORDER BY likes DESC, author_id;
