-- 0001 outbox, undone. Everything that was enqueued and not delivered is lost.
-- Objects that someone else put into the schema make the last statement fail, and so the whole.

DROP TABLE posthaste.parked;
DROP TABLE posthaste.relay;
DROP TABLE posthaste.progress;
DROP TABLE posthaste.lease;
DROP TABLE posthaste.route;
DROP TABLE posthaste.outbox;
DROP FUNCTION posthaste.headers_valid(json);
DROP TABLE posthaste.meta;
DROP TABLE posthaste.migration;
DROP SCHEMA posthaste;
