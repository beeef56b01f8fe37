-- count_like_of_source: one more like of a source, and how far its log has come.
-- Concurrency: in the transaction of insert_like, and only if that was new.
INSERT INTO sources (
    source,
    likes,
    seq
)
VALUES ($1, 1, $2)
ON CONFLICT (source) DO UPDATE SET
    likes = likes + 1,
    seq = MAX(seq, excluded.seq);
