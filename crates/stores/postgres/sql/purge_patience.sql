-- purge_patience: a purge waits for no lock longer than this; its turn comes again.
-- Concurrency: none. Index: none.
SET LOCAL lock_timeout = '200ms'
