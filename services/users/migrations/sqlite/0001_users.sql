-- Users. The address is stored in its one form, small letters, so that a plain unique constraint is
-- enough; the password is a hash that says how it was made.
CREATE TABLE users (
    id         TEXT PRIMARY KEY,
    email      TEXT NOT NULL,
    password   TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    CONSTRAINT email_is_unique UNIQUE (email),
    CONSTRAINT email_is_short CHECK (length(email) BETWEEN 3 AND 254),
    CONSTRAINT password_is_hashed CHECK (password LIKE '$argon2id$%' AND length(password) <= 255)
) STRICT;
