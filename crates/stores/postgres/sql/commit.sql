-- commit: commits the transaction that begin.sql began, and fails in any other. An aborted one refuses
-- the SELECT (25P02), where COMMIT alone would roll back and report success; outside it the mark is
-- empty (22P02) or unknown (42704). The BEGIN at the end is for the driver, which still counts one
-- transaction and rolls it back together with its next message; it saves a round trip.
-- Concurrency: none. Index: none.
SELECT current_setting('posthaste.transaction')::boolean;
COMMIT;
BEGIN
