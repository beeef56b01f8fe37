-- Transfers. Names and rules are those of the API; `posthaste.outbox` is made by Posthaste.
CREATE TABLE transactions (
    id                 uuid PRIMARY KEY,
    amount             bigint NOT NULL,
    description        text NOT NULL,
    from_user_id       text NOT NULL,
    to_user_id         text NOT NULL,
    transaction_status text NOT NULL DEFAULT 'PENDING',
    idempotency_key    text,
    fingerprint        bytea,
    created_at         timestamptz NOT NULL DEFAULT now(),
    processed_at       timestamptz,
    CONSTRAINT amount_is_positive CHECK (amount > 0),
    CONSTRAINT users_differ CHECK (from_user_id <> to_user_id),
    CONSTRAINT users_are_named CHECK (from_user_id <> '' AND to_user_id <> ''),
    CONSTRAINT status_is_known CHECK (transaction_status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED')),
    CONSTRAINT final_is_timed CHECK ((transaction_status IN ('COMPLETED', 'FAILED')) = (processed_at IS NOT NULL)),
    CONSTRAINT key_has_fingerprint CHECK ((idempotency_key IS NULL) = (fingerprint IS NULL)),
    CONSTRAINT key_is_short CHECK (char_length(idempotency_key) <= 255)
);

-- A key is one sender's: the last line of defence against doing a thing twice.
CREATE UNIQUE INDEX transactions_key ON transactions (from_user_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- What COMPLETED transfers add up to, moved in the transaction that completes them. 39 digits hold more
-- transfers of the largest amount than ids there are.
CREATE TABLE balances (
    user_id text PRIMARY KEY,
    balance numeric(39, 0) NOT NULL DEFAULT 0
);
