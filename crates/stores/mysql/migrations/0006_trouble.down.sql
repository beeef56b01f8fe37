-- 0006 trouble, undone.

ALTER TABLE posthaste_relay DROP COLUMN paused;
