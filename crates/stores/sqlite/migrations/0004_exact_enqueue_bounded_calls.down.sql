-- 0004 exact enqueue, bounded calls, undone.

DROP INDEX posthaste_parked_dead;
DROP INDEX posthaste_parked_undelivered;
