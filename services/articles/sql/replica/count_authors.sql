-- count_authors: how many authors were liked at all.
SELECT COUNT(*)
FROM authors;
