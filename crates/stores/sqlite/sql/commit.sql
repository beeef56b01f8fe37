-- commit: commits. The BEGIN at the end is for the driver, which still counts one transaction and rolls
-- it back when it is dropped; by its own COMMIT, if that failed, it would count it for ever.
-- Concurrency: none. Index: none.
COMMIT;
BEGIN
