-- 0006 trouble, undone.

DROP INDEX posthaste.parked_retrying;
ALTER TABLE posthaste.relay DROP COLUMN paused;
