-- read_encoding: how the database stores text.
-- Concurrency: reads, waits for nobody. Index: none.
SELECT encoding
FROM pragma_encoding
