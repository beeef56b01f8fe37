-- 0002 log identity: which log a route reads, for consumers that tell copies by seq.

-- Drawn when it is first asked for. Gone, and so drawn again, when seqs may mean other messages: after
-- the route got other topics, and after a restore.
CREATE TABLE posthaste.identity (
    route text PRIMARY KEY,
    log uuid NOT NULL DEFAULT gen_random_uuid()
);
