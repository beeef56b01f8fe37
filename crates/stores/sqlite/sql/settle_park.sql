-- settle_park: puts a message aside; one that is there already stays as it is. Who has to wait for
-- an older one of the key is settled afterwards (hold_followers).
-- Concurrency: behind the fence, in its transaction. Index: primary key.
INSERT INTO posthaste_parked (
    route, seq, bucket, id, topic, key, type, headers, content_type, created_at,
    state, blocks, attempts, unknowns,
    first_error_class, first_error, last_error_class, last_error,
    parked_at, state_at, next_attempt_at, payload)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
    ?11, ?12, ?13, ?14,
    ?15, ?16, ?15, ?16,
    ?17, ?17, ?18, ?19)
ON CONFLICT (route, seq) DO NOTHING
