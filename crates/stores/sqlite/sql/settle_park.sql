-- settle_park: puts a message aside; one that is there already stays as it is. Who has to wait for
-- an older one of the key is settled afterwards (hold_followers).
-- Concurrency: behind the fence, in its transaction. Index: primary key; that of the outbox for the
-- exact time of creation, where it still has the row.
INSERT INTO posthaste_parked (
    route, seq, bucket, id, topic, key, type, headers, content_type, created_at,
    state, blocks, attempts, unknowns,
    first_error_class, first_error, last_error_class, last_error,
    parked_at, state_at, next_attempt_at, payload)
VALUES (
    :route, :seq, :bucket, :id, :topic, :key, :type, :headers, :content_type,
    coalesce(
        (SELECT created_at FROM posthaste_outbox WHERE seq = :seq),
        max(unixepoch('subsec') - :age / 1000000.0, 0.0)),
    :state, :blocks, :attempts, :unknowns,
    :class, :detail, :class, :detail,
    unixepoch('subsec'), unixepoch('subsec'), unixepoch('subsec') + :delay / 1000000.0, :payload)
ON CONFLICT (route, seq) DO NOTHING
