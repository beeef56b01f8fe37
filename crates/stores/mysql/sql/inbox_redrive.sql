-- inbox_redrive: on behalf of ?, dead letters that match the filter (consumer ?, JSON array of ids ?,
-- topic ?, class ?, each NULL for any and given twice) go to their consumers again.
-- Concurrency: row locks. Index: primary key, or posthaste_inbox_dead_state.
UPDATE posthaste_inbox_dead
SET
    state = 'retrying',
    attempts = 0,
    redriven = redriven + 1,
    state_at = UTC_TIMESTAMP(6),
    acted_by = ?,
    acted_why = 'redrive'
WHERE state = 'dead'
    AND (? IS NULL OR consumer = ?)
    AND (
        ? IS NULL
        OR id IN (
            SELECT wanted.id
            FROM JSON_TABLE(
                ?,
                '$[*]' COLUMNS (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$')
            ) AS wanted))
    AND (? IS NULL OR topic = ?)
    AND (? IS NULL OR last_error_class = ?)
