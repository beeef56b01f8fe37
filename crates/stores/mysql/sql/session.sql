-- session: how every connection of the store works: strict, in UTC, READ COMMITTED (so that reading
-- locks no gaps), with short waits for locks. A relay that is frozen inside a transaction loses it:
-- on MariaDB after 5 s, on MySQL, which knows only idle connections, after 60 s.
-- Concurrency: none. Index: none.
SET
    SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO',
    SESSION time_zone = '+00:00',
    SESSION innodb_lock_wait_timeout = 5,
    /*M! SESSION idle_transaction_timeout = 5, */
    SESSION wait_timeout = 60,
    SESSION autocommit = 1;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
