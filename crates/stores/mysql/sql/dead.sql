-- dead: the first :limit parked messages in state :state that match the filter (route :route, JSON array
-- :ids, topic :topic, class of the last error :class, each NULL for any). Where dead ones are asked for
-- by their ids, discarded ones come as well.
-- Concurrency: reads. Index: posthaste_parked_dead, or posthaste_parked_id.
SELECT
    parked.seq,
    parked.id,
    parked.topic,
    parked.`key`,
    parked.`type`,
    parked.headers,
    parked.content_type,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', parked.created_at),
    parked.payload,
    parked.attempts,
    parked.unknowns,
    parked.redriven,
    TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), parked.next_attempt_at),
    parked.route,
    parked.state,
    parked.first_error_class,
    parked.first_error,
    parked.last_error_class,
    parked.last_error,
    DATE_FORMAT(parked.created_at, '%Y-%m-%dT%H:%i:%s.%fZ'),
    DATE_FORMAT(parked.parked_at, '%Y-%m-%dT%H:%i:%s.%fZ'),
    DATE_FORMAT(parked.state_at, '%Y-%m-%dT%H:%i:%s.%fZ'),
    parked.acted_by,
    parked.acted_why
FROM (
    SELECT
        route,
        seq
    FROM posthaste_parked
    WHERE (state = :state OR (state = 'discarded' AND :state = 'dead' AND :ids IS NOT NULL))
        AND (:route IS NULL OR route = :route)
        AND (
            :ids IS NULL
            OR id IN (
                SELECT wanted.id
                FROM JSON_TABLE(
                    :ids,
                    '$[*]' COLUMNS (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$')
                ) AS wanted))
        AND (:topic IS NULL OR topic = :topic)
        AND (:class IS NULL OR last_error_class = :class)
    ORDER BY seq, route
    LIMIT :limit
) AS matching
STRAIGHT_JOIN posthaste_parked AS parked FORCE INDEX (PRIMARY)
    ON parked.route = matching.route AND parked.seq = matching.seq
ORDER BY parked.seq, parked.route
