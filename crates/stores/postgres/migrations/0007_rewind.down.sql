-- 0007 rewind, undone.
DROP TABLE posthaste.rewind;
DROP FUNCTION posthaste.seq_last();
DROP FUNCTION posthaste.lineage();
