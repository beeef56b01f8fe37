-- 0001 outbox, undone. Every message goes with its table, delivered or not.
DROP TABLE posthaste_parked;
DROP TABLE posthaste_relay;
DROP TABLE posthaste_progress;
DROP TABLE posthaste_lease;
DROP TABLE posthaste_route;
DROP TABLE posthaste_outbox;
