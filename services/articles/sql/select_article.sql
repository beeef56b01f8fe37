-- select_article: one article.
-- Concurrency: takes no lock. On SQLite a transaction begun IMMEDIATE makes it a locked read.
-- Index: articles_pkey.
SELECT
    id,
    author_id,
    content,
    likes,
    published_at,
    modified_at
FROM articles
WHERE id = $1;
