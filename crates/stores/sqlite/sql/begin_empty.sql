-- begin_empty: begins a transaction that takes no lock, and fails inside one. So it tells whether there
-- is one, which the driver cannot: it still counts a transaction that SQLite rolled back by itself.
-- Concurrency: none. Index: none.
BEGIN
