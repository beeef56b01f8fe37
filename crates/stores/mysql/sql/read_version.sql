-- read_version: what the server is.
-- Concurrency: none. Index: none.
SELECT VERSION()
