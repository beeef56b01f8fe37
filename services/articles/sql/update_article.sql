-- update_article: writes back an article that this transaction has locked.
-- Index: articles_pkey.
UPDATE articles
SET
    content = $2,
    likes = $3,
    modified_at = $4
WHERE id = $1;
