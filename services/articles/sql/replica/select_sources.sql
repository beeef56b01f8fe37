-- select_sources: who sent likes, how many, and up to which place of their log.
-- Index: the primary key.
SELECT
    source,
    COUNT(*) AS likes,
    MAX(seq) AS seq
FROM likes
GROUP BY source
ORDER BY source;
