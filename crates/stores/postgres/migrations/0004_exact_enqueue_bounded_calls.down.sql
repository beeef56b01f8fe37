-- 0004 exact enqueue, bounded calls, undone.

DROP INDEX posthaste.parked_dead_all;
DROP INDEX posthaste.parked_undelivered;
CREATE INDEX outbox_xid ON posthaste.outbox (xid);
DROP INDEX posthaste.outbox_late;
DROP FUNCTION posthaste.enqueue(text, text, text, text, json, text, uuid);
DROP FUNCTION posthaste.enqueue(text, text, json, text, json, text, uuid);
DROP FUNCTION posthaste.enqueue(text, text, jsonb, text, json, text, uuid);
DROP FUNCTION posthaste.enqueue(text, text, bytea, text, json, text, uuid);
