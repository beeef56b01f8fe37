-- lock_article: one article, which nobody else changes until this transaction ends.
-- Concurrency: waits for the row's lock; that serialises the writers of a key, as the outbox asks.
-- Index: articles_pkey.
SELECT
    id,
    author_id,
    content,
    likes,
    published_at,
    modified_at
FROM articles
WHERE id = $1
FOR UPDATE;
