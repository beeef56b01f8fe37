-- 0005 inbox_page: what consumers have handled above a floor that stands still. Running consumers of an
-- older version that meet a watermark with pages stop; they do not take copies for new messages.

-- Handled seqs of one shard in a stretch of 4096, beside the watermark of their lane.
CREATE TABLE posthaste_inbox_page (
    consumer TEXT NOT NULL,
    log TEXT NOT NULL,
    lane TEXT NOT NULL,
    topic TEXT NOT NULL,
    shards INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    number INTEGER NOT NULL,
    seqs TEXT NOT NULL,
    PRIMARY KEY (consumer, log, lane, topic, shards, shard, number)
) STRICT, WITHOUT ROWID;
