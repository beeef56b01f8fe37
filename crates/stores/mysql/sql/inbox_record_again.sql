-- inbox_record_again: the end of inbox_record, for ids that are there. Not INSERT IGNORE, which takes
-- every error for a row that is there. The least change there is makes such a row count as two rows
-- affected, while a new one counts as one.
-- Concurrency: as inbox_record. Index: primary key.
ON DUPLICATE KEY UPDATE at = at + INTERVAL 1 MICROSECOND
