-- register_route: makes a route known, or writes down its topics and the resize under way.
-- Concurrency: in the transaction that read it. Index: primary key.
INSERT INTO posthaste_route (name, topics, shards, resizing_to, barrier)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET
    topics = excluded.topics,
    shards = excluded.shards,
    resizing_to = excluded.resizing_to,
    barrier = excluded.barrier
