-- create_tables: what the service keeps beside Posthaste's own tables. The same on every database.
-- Concurrency: the adapter lets one process at a time in. Instants are RFC 3339 text in UTC with
-- nanoseconds, which neither database has a type for.
CREATE TABLE IF NOT EXISTS articles (
    id           BIGINT PRIMARY KEY,
    author_id    BIGINT NOT NULL,
    content      TEXT   NOT NULL,
    likes        BIGINT NOT NULL CHECK (likes >= 0),
    published_at TEXT   NOT NULL,
    modified_at  TEXT   NOT NULL
);

-- Every like that had an event, for an author's series: the outbox forgets what is delivered.
CREATE TABLE IF NOT EXISTS article_likes (
    event_id   TEXT   PRIMARY KEY,
    article_id BIGINT NOT NULL REFERENCES articles (id),
    author_id  BIGINT NOT NULL,
    liked_at   TEXT   NOT NULL,
    -- Seconds of Unix time, rounded down: what the graph counts by.
    second     BIGINT NOT NULL
);

CREATE INDEX IF NOT EXISTS article_likes_by_author ON article_likes (author_id, second);

-- One row: the name of this outbox to its consumers, made with the tables.
CREATE TABLE IF NOT EXISTS articles_outbox (
    is_one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (is_one),
    source TEXT    NOT NULL
);
