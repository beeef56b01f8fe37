-- begin_ranges: as begin_call; in this one transaction, locking every row of a table keeps new rows out
-- as well.
-- Concurrency: none. Index: none.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
START TRANSACTION
