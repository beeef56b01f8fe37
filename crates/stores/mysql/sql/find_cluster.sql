-- find_cluster: one row, of name and value, where the server could be a node of a Galera cluster; the
-- value is ON where it is one.
-- Concurrency: none. Index: none.
SHOW SESSION VARIABLES LIKE 'wsrep_on'
