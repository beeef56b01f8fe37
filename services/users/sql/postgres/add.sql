-- add: a user, unless somebody has the address. Concurrency: of two at once the second waits for the
-- first to end. Index: email_is_unique.
INSERT INTO users (id, email, password)
VALUES ($1, $2, $3)
ON CONFLICT (email) DO NOTHING
