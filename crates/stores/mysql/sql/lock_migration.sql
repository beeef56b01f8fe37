-- lock_migration: one migration at a time. On a connection of its own, because changing tables
-- commits whatever its connection has begun.
-- Concurrency: waits for another migration; let go when the transaction ends. Index: primary key.
SELECT number
FROM posthaste_migration
WHERE number = 0
FOR UPDATE
