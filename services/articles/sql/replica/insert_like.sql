-- insert_like: a like that arrived; nothing happens if it had arrived before.
-- Concurrency: the caller's transaction is begun IMMEDIATE.
INSERT INTO likes (
    source,
    seq,
    event_id,
    article_id,
    author_id,
    liked_at,
    second
)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (source, seq, event_id) DO NOTHING;
