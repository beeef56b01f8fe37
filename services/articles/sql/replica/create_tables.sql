-- create_tables: what a consumer keeps.
-- A like is known by its place in the log of its source, and its own id: a log that was restored from
-- a backup gives old places to new events.
CREATE TABLE IF NOT EXISTS likes (
    source     TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    event_id   TEXT    NOT NULL,
    article_id INTEGER NOT NULL,
    author_id  INTEGER NOT NULL,
    -- As it was received.
    liked_at   TEXT    NOT NULL,
    -- Seconds of Unix time, rounded down: what the graph counts by.
    second     INTEGER NOT NULL,
    PRIMARY KEY (source, seq, event_id)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS likes_by_second ON likes (second, author_id);
CREATE INDEX IF NOT EXISTS likes_by_author ON likes (author_id, second);

-- How many likes there are, so that nobody has to count them: written with every like.
CREATE TABLE IF NOT EXISTS sources (
    source TEXT    PRIMARY KEY,
    likes  INTEGER NOT NULL,
    -- The highest place of its log that has come.
    seq    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS authors (
    author_id INTEGER PRIMARY KEY,
    likes     INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS authors_by_likes ON authors (likes);

-- Messages that are no likes as agreed: kept and acknowledged, so that they stop nobody.
CREATE TABLE IF NOT EXISTS refused (
    source   TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    event_id TEXT    NOT NULL,
    reason   TEXT    NOT NULL,
    PRIMARY KEY (source, seq, event_id)
) WITHOUT ROWID;
