-- 0006 trouble: what `status` tells of routes that do not get on. Which message has been retrying longest
-- is found by posthaste_parked_state.

-- The routes that the relay has paused, and why: a JSON array that only people read.
ALTER TABLE posthaste_relay
    ADD COLUMN paused TEXT NOT NULL DEFAULT '[]'
    CONSTRAINT posthaste_relay_paused CHECK (length(paused) <= 131072);
