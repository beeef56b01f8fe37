-- begin: a transaction that carries a mark, so that commit can tell whether it is still there.
-- Concurrency: none. Index: none.
BEGIN;
SET LOCAL posthaste.transaction = 'on'
