-- sequence: moves the next committed messages (10,000 rows, 16 MiB of payload) from the outbox to the
-- end of the log, in the order of their seq; returns the end of the log, and whether there may be
-- more. Sent as one text, so that a relay that freezes holds no lock.
-- Concurrency: one at a time, by the lock on the one row of posthaste_sequencer. Under READ COMMITTED
-- the outbox is read without locks, and rows are deleted by their exact seq, so no INSERT waits.
-- Index: primary keys.
START TRANSACTION;
SELECT seq INTO @posthaste_end FROM posthaste_sequencer WHERE one = 1 FOR UPDATE;
INSERT INTO posthaste_log (
    seq, outbox_seq, id, topic, `key`, `type`, headers, content_type, created_at,
    payload_bytes, payload)
SELECT
    @posthaste_end + next.place,
    message.seq,
    LOWER(message.id),
    message.topic,
    message.`key`,
    message.`type`,
    message.headers,
    message.content_type,
    message.created_at,
    message.payload_bytes,
    message.payload
FROM (
    SELECT
        seq,
        ROW_NUMBER() OVER (ORDER BY seq) AS place,
        SUM(payload_bytes) OVER (ORDER BY seq) AS bytes
    FROM (SELECT seq, payload_bytes FROM posthaste_outbox ORDER BY seq LIMIT 10000) AS visible
) AS next
STRAIGHT_JOIN posthaste_outbox AS message FORCE INDEX (PRIMARY) ON message.seq = next.seq
WHERE next.place = 1 OR next.bytes <= 16777216;
SET @posthaste_moved = ROW_COUNT();
DELETE message
FROM posthaste_log AS moved
STRAIGHT_JOIN posthaste_outbox AS message FORCE INDEX (PRIMARY) ON message.seq = moved.outbox_seq
WHERE moved.seq > @posthaste_end;
UPDATE posthaste_sequencer SET seq = @posthaste_end + @posthaste_moved WHERE one = 1;
COMMIT;
SELECT
    CAST(@posthaste_end + @posthaste_moved AS SIGNED),
    @posthaste_moved > 0 AND EXISTS (SELECT 1 FROM posthaste_outbox)
