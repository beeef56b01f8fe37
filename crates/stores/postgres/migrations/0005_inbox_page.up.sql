-- 0005 inbox_page: what consumers have handled above a floor that stands still. Running consumers of an
-- older version that meet a watermark with pages stop; they do not take copies for new messages.

-- Handled seqs of one shard in a stretch of 4096, beside the watermark of their lane.
CREATE TABLE posthaste.inbox_page (
    consumer text NOT NULL,
    log uuid NOT NULL,
    lane text NOT NULL,
    topic text NOT NULL,
    shards int NOT NULL,
    shard int NOT NULL,
    number bigint NOT NULL,
    seqs text NOT NULL,
    PRIMARY KEY (consumer, log, lane, topic, shards, shard, number)
);
