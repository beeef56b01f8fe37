-- 0001 outbox, undone. Everything that was enqueued and not delivered is lost.

DROP TABLE posthaste_parked;
DROP TABLE posthaste_relay;
DROP TABLE posthaste_progress;
DROP TABLE posthaste_lease;
DROP TABLE posthaste_route;
DROP TABLE posthaste_sequencer;
DROP TABLE posthaste_log;
DROP TABLE posthaste_outbox;
DROP TABLE posthaste_migration;
