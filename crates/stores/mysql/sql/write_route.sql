-- write_route: writes a route's topics ?, shards ?, and the resize under way (to ?, at ?); name ?.
-- Concurrency: with the route's row locked. Index: primary key.
UPDATE posthaste_route
SET
    topics = ?,
    shards = ?,
    resizing_to = ?,
    barrier = ?
WHERE name = ?
