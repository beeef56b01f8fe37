-- 0007 rewind: when relays found that the log had gone back in time.

CREATE TABLE posthaste_rewind (
    n INTEGER PRIMARY KEY,
    route TEXT NOT NULL,
    relay TEXT NOT NULL,
    at REAL NOT NULL DEFAULT (unixepoch('subsec'))
) STRICT;
