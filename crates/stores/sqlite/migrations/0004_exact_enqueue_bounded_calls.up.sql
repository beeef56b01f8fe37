-- 0004 exact enqueue, bounded calls: indexes so that no call gets slower as tables grow. Text given to
-- `payload` is stored as it is, so there is no function to enqueue.

-- Parked messages that may still come, in order; however many were discarded.
CREATE INDEX posthaste_parked_undelivered ON posthaste_parked (route, seq, bucket)
WHERE state <> 'discarded';

-- Dead letters of all routes for people, in order.
CREATE INDEX posthaste_parked_dead ON posthaste_parked (seq, route)
WHERE state = 'dead';
