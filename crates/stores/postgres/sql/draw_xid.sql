-- draw_xid: hands out a transaction id to a savepoint, which is then given up: the snapshots of later
-- statements have an xmax above all ids that were handed out before.
-- The message is what makes the server hand out an id, to a role that may write no table at all; as
-- the savepoint is given up, nobody receives it.
-- Concurrency: waits for nobody. Index: none.
SAVEPOINT drawn;
SELECT pg_logical_emit_message(true, 'posthaste', '')::text;
ROLLBACK TO SAVEPOINT drawn;
RELEASE SAVEPOINT drawn
