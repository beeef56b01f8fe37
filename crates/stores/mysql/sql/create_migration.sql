-- create_migration: the table of applied migrations; named so that it cannot meet the user's own.
-- Its row 0 is what migrations lock.
-- Concurrency: several may do so at once. Index: primary key.
CREATE TABLE IF NOT EXISTS posthaste_migration (
    number INT NOT NULL,
    name VARCHAR(255) NOT NULL,
    at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    PRIMARY KEY (number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT INTO posthaste_migration (number, name)
VALUES (0, 'lock')
ON DUPLICATE KEY UPDATE number = number
