-- sequence_run: as sequence, for a backlog: moves the first rows whose seqs have no gap between them
-- (25,000 rows, 16 MiB), if there are 5,000 or nothing else. Such a run is a range, all of it committed,
-- which nothing can come between; so it is copied and deleted without looking for each row, in half the
-- time. It looks from the start of the outbox only once, because deleted rows lie there until the
-- server has purged them.
-- Concurrency: as sequence. LIMIT ends the DELETE at the last row of the run: looking at the next
-- one would wait for its transaction. It takes a variable only in a prepared statement.
-- Index: primary keys (range).
START TRANSACTION;
SELECT seq INTO @posthaste_end FROM posthaste_sequencer WHERE one = 1 FOR UPDATE;
SELECT
    MIN(next.seq),
    CAST(SUM(
        next.seq = next.first + next.place - 1
        AND (next.place = 1 OR next.bytes <= 16777216)) AS SIGNED),
    COUNT(*)
INTO @posthaste_first, @posthaste_run, @posthaste_visible
FROM (
    SELECT
        seq,
        FIRST_VALUE(seq) OVER (ORDER BY seq) AS first,
        ROW_NUMBER() OVER (ORDER BY seq) AS place,
        SUM(payload_bytes) OVER (ORDER BY seq) AS bytes
    FROM (SELECT seq, payload_bytes FROM posthaste_outbox ORDER BY seq LIMIT 25000) AS visible
) AS next;
SET @posthaste_last = @posthaste_first + @posthaste_run - 1;
INSERT INTO posthaste_log (
    seq, outbox_seq, id, topic, `key`, `type`, headers, content_type, created_at,
    payload_bytes, payload)
SELECT
    @posthaste_end + 1 + seq - @posthaste_first,
    seq,
    LOWER(id),
    topic,
    `key`,
    `type`,
    headers,
    content_type,
    created_at,
    payload_bytes,
    payload
FROM posthaste_outbox
WHERE seq BETWEEN @posthaste_first AND @posthaste_last
    AND (@posthaste_run >= 5000 OR @posthaste_run = @posthaste_visible);
SET @posthaste_moved = ROW_COUNT();
PREPARE posthaste_forget FROM
    'DELETE FROM posthaste_outbox WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?';
EXECUTE posthaste_forget USING @posthaste_first, @posthaste_last, @posthaste_moved;
DEALLOCATE PREPARE posthaste_forget;
UPDATE posthaste_sequencer SET seq = @posthaste_end + @posthaste_moved WHERE one = 1;
COMMIT;
SELECT
    CAST(@posthaste_end + @posthaste_moved AS SIGNED),
    @posthaste_moved > 0
        AND (@posthaste_visible = 25000 OR @posthaste_moved < @posthaste_visible)
