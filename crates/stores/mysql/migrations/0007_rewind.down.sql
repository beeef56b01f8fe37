-- 0007 rewind, undone.
DROP TABLE IF EXISTS posthaste_rewind;
