-- sequence_run: as sequence, for a backlog: moves the first 25,000 rows, or else the first 5,000, if
-- there is no gap between their seqs and they are within 16 MiB. Such a run is a range, all of it
-- committed, which nothing can come between; so it is copied and deleted without looking for each row,
-- in half the time. Rows have no gap if there are as many as from the lowest to the highest.
-- Concurrency: as sequence. One statement looks, so that all of the run is of one moment: a later look
-- could see a message whose predecessor, below the run, the first look did not. LIMIT ends the DELETE
-- at the last row of the run: looking at the next one would wait for its transaction. It takes a
-- variable only in a prepared statement.
-- Index: primary keys (range).
START TRANSACTION;
SELECT seq INTO @posthaste_end FROM posthaste_sequencer WHERE one = 1 FOR UPDATE;
SELECT
    many.lowest,
    CASE
        WHEN many.highest - many.lowest + 1 = many.visible AND many.bytes <= 16777216
            THEN many.visible
        WHEN few.highest - few.lowest + 1 = few.visible AND few.bytes <= 16777216
            THEN few.visible
        ELSE 0
    END,
    many.visible
INTO @posthaste_first, @posthaste_run, @posthaste_visible
FROM (
    SELECT
        MIN(seq) AS lowest,
        MAX(seq) AS highest,
        COUNT(*) AS visible,
        SUM(payload_bytes) AS bytes
    FROM (SELECT seq, payload_bytes FROM posthaste_outbox ORDER BY seq LIMIT 25000) AS visible
) AS many
CROSS JOIN (
    SELECT
        MIN(seq) AS lowest,
        MAX(seq) AS highest,
        COUNT(*) AS visible,
        SUM(payload_bytes) AS bytes
    FROM (SELECT seq, payload_bytes FROM posthaste_outbox ORDER BY seq LIMIT 5000) AS visible
) AS few;
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
WHERE seq BETWEEN @posthaste_first AND @posthaste_last;
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
