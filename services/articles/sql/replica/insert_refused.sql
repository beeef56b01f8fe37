-- insert_refused: a message that is no like as agreed, and why; once.
INSERT INTO refused (
    source,
    seq,
    event_id,
    reason
)
VALUES ($1, $2, $3, $4)
ON CONFLICT (source, seq, event_id) DO NOTHING;
