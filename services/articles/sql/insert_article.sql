-- insert_article: a new article; no row is inserted where the id is taken.
-- Concurrency: a second INSERT of an id waits for the first, then changes nothing. Index: articles_pkey.
INSERT INTO articles (
    id,
    author_id,
    content,
    likes,
    published_at,
    modified_at
)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO NOTHING;
