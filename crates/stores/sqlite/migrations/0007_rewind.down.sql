-- 0007 rewind, undone.
DROP TABLE posthaste_rewind;
