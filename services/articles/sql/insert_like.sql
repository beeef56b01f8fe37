-- insert_like: one like, for the series.
INSERT INTO article_likes (
    event_id,
    article_id,
    author_id,
    liked_at,
    second
)
VALUES ($1, $2, $3, $4, $5);
