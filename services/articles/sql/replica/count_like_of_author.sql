-- count_like_of_author: one more like of an author.
-- Concurrency: in the transaction of insert_like, and only if that was new.
INSERT INTO authors (
    author_id,
    likes
)
VALUES ($1, 1)
ON CONFLICT (author_id) DO UPDATE SET
    likes = likes + 1;
