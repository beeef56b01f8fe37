-- 0002 log identity: which log a route reads, for consumers that tell copies by seq.

-- Drawn when it is first asked for. Gone, and so drawn again, when seqs may mean other messages: after
-- the route got other topics, and after a restore.
CREATE TABLE IF NOT EXISTS posthaste_identity (
    route VARBINARY(255) NOT NULL,
    log CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (route)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
