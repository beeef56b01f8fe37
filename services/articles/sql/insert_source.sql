-- insert_source: names this outbox, once.
-- Concurrency: the first to commit wins; the others change nothing.
INSERT INTO articles_outbox (source)
VALUES ($1)
ON CONFLICT DO NOTHING;
