-- Transfers. Names and rules are those of the API; `posthaste_outbox` is made by Posthaste.
CREATE TABLE transactions (
    id                 TEXT PRIMARY KEY,
    amount             INTEGER NOT NULL,
    description        TEXT NOT NULL,
    from_user_id       TEXT NOT NULL,
    to_user_id         TEXT NOT NULL,
    transaction_status TEXT NOT NULL DEFAULT 'PENDING',
    idempotency_key    TEXT,
    fingerprint        BLOB,
    created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    processed_at       TEXT,
    CONSTRAINT amount_is_positive CHECK (amount > 0),
    CONSTRAINT users_differ CHECK (from_user_id <> to_user_id),
    CONSTRAINT users_are_named CHECK (from_user_id <> '' AND to_user_id <> ''),
    CONSTRAINT status_is_known CHECK (transaction_status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED')),
    CONSTRAINT final_is_timed CHECK ((transaction_status IN ('COMPLETED', 'FAILED')) = (processed_at IS NOT NULL)),
    CONSTRAINT key_has_fingerprint CHECK ((idempotency_key IS NULL) = (fingerprint IS NULL)),
    CONSTRAINT key_is_short CHECK (length(idempotency_key) <= 255)
) STRICT;

-- A key is one sender's: the last line of defence against doing a thing twice.
CREATE UNIQUE INDEX transactions_key ON transactions (from_user_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- What COMPLETED transfers add up to, moved in the transaction that completes them. Decimal text: the sum
-- can exceed SQLite's integers.
CREATE TABLE balances (
    user_id TEXT PRIMARY KEY,
    balance TEXT NOT NULL DEFAULT '0'
) STRICT;
