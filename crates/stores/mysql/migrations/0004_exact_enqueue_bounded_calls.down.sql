-- 0004 exact enqueue, bounded calls, undone.

DROP INDEX posthaste_parked_dead ON posthaste_parked;
DROP INDEX posthaste_parked_undelivered ON posthaste_parked;
