-- 0007 rewind: when relays found that the log had gone back in time.

CREATE TABLE IF NOT EXISTS posthaste_rewind (
    n BIGINT NOT NULL AUTO_INCREMENT,
    route VARBINARY(255) NOT NULL,
    relay CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    at DATETIME(6) NOT NULL,
    PRIMARY KEY (n)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
