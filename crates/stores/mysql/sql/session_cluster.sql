-- session_cluster: on a node of a Galera cluster, statements of this connection wait until what other
-- nodes have committed is here.
-- Concurrency: none. Index: none.
SET SESSION wsrep_sync_wait = 7
