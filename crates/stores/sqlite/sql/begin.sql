-- begin: a transaction that holds the write lock from its beginning.
-- Concurrency: waits for the writer before it. Index: none.
BEGIN IMMEDIATE
