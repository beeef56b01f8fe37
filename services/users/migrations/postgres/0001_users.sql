-- Users. The address is stored in its one form, small letters, so that a plain unique constraint is
-- enough; the password is a hash that says how it was made.
CREATE TABLE users (
    id         uuid PRIMARY KEY,
    email      text NOT NULL,
    password   text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT email_is_unique UNIQUE (email),
    CONSTRAINT email_is_short CHECK (char_length(email) BETWEEN 3 AND 254),
    CONSTRAINT password_is_hashed CHECK (password LIKE '$argon2id$%' AND char_length(password) <= 255)
);
