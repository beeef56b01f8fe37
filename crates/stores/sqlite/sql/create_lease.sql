-- create_lease: a free lease for one shard.
-- Concurrency: in the transaction that makes the layout. Index: primary key.
INSERT INTO posthaste_lease (route, shard, epoch)
VALUES (?1, ?2, ?3)
