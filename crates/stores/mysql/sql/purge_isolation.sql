-- purge_isolation: in the next transaction of this connection, locking every row of a table keeps new
-- rows out as well.
-- Concurrency: none. Index: none.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ
