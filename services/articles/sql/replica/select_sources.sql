-- select_sources: who sent likes, how many, and up to which place of their log.
SELECT
    source,
    likes,
    seq
FROM sources
ORDER BY source;
