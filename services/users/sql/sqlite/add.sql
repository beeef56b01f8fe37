-- add: a user, unless somebody has the address. Concurrency: the caller holds the write lock. Index:
-- email_is_unique.
INSERT INTO users (id, email, password)
VALUES (?1, ?2, ?3)
ON CONFLICT (email) DO NOTHING
