-- 0006 trouble: what `status` tells of routes that do not get on.

-- The routes that the relay has paused, and why: a JSON array that only people read.
ALTER TABLE posthaste.relay
    ADD COLUMN paused text NOT NULL DEFAULT '[]'
    CONSTRAINT paused_is_at_most_128_kib CHECK (octet_length(paused) <= 131072);

-- Which message of a route has been retrying longest, and how many are.
CREATE INDEX parked_retrying ON posthaste.parked (route, state_at)
    WHERE state = 'retrying';
