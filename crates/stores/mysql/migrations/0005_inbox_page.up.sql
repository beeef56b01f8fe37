-- 0005 inbox_page: what consumers have handled above a floor that stands still. Running consumers of an
-- older version that meet a watermark with pages stop; they do not take copies for new messages.
-- Every statement may run again. Texts are their UTF-8 bytes: no collation takes two for one.

-- Handled seqs of one shard in a stretch of 4096, beside the watermark of their lane.
CREATE TABLE IF NOT EXISTS posthaste_inbox_page (
    consumer VARBINARY(255) NOT NULL,
    log BINARY(16) NOT NULL,
    lane VARBINARY(512) NOT NULL,
    topic VARBINARY(255) NOT NULL,
    shards INT UNSIGNED NOT NULL,
    shard INT UNSIGNED NOT NULL,
    number BIGINT NOT NULL,
    seqs MEDIUMBLOB NOT NULL,
    PRIMARY KEY (consumer, log, lane, topic, shards, shard, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
