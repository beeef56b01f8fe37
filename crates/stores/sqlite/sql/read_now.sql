-- read_now: the database's time.
-- Concurrency: none. Index: none.
SELECT unixepoch('subsec')
