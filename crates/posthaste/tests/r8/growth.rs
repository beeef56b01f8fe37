//! R8.05 and R8.06 in numbers: what is kept after many messages, and what old ones find.
//!
//! `POSTHASTE_R8_MESSAGES=1000000 cargo test -p posthaste --features postgres,sqlite --test r8 growth
//! -- --nocapture` runs the million of the requirement; without it 20,000 are handled.

use std::{env, time::Duration};

use posthaste::{Inbox, Incoming, Input};
use posthaste_core::Seq;
use uuid::Uuid;

use crate::{
    bed::{Base, Bed, on_each_database},
    desk::placed,
};

/// Messages in a transaction.
const BATCH: Seq = 500;
/// Messages that a relay has in flight: floors are so far behind.
const IN_FLIGHT: Seq = 64;

fn messages() -> Seq {
    let given = env::var("POSTHASTE_R8_MESSAGES").ok();
    given.map_or(20_000, |text| text.parse().expect("POSTHASTE_R8_MESSAGES is a number"))
}

/// Messages of a log, in their order, as a relay sends them.
fn batch(log: Uuid, from: Seq) -> Vec<Incoming> {
    let floor = |seq: Seq| (seq - 1) / IN_FLIGHT * IN_FLIGHT;
    (from..from + BATCH).map(|seq| placed(log, seq, floor(seq), "entity")).collect()
}

/// Handles messages in one transaction; each that is new adds one to the entity. How many were new.
async fn handle<DB: Base>(bed: &Bed<DB>, inbox: &Inbox<DB>, messages: &[Incoming]) -> usize {
    let inputs: Vec<Input<'_>> = messages.iter().map(Input::from).collect();
    let mut tx = inbox.begin_all(&bed.pool, &inputs).await.expect("an answer");
    let new = (0..messages.len()).filter(|index| tx.is_new(*index)).count();
    let upsert = "INSERT INTO entity (name, n) VALUES ('one', CAST($1 AS BIGINT)) \
                  ON CONFLICT (name) DO UPDATE SET n = entity.n + excluded.n";
    DB::execute(&mut tx, upsert, &[&new.to_string()]).await.expect("an entity");
    assert_eq!(tx.commit().await.expect("a commit"), posthaste::Handled::Done(()));
    new
}

async fn r8_06_a_watermark_keeps_one_row_and_drops_every_replay<DB: Base>() {
    let (bed, inbox) = (Bed::<DB>::new().await, Inbox::<DB>::new("c").watermark());
    let (log, count) = (Uuid::now_v7(), messages());
    let firsts = || (1..=count).step_by(BATCH as usize);
    let (mut longest, mut row_bytes) = (0, Vec::new());
    let began = tokio::time::Instant::now();
    for first in firsts() {
        assert_eq!(handle(&bed, &inbox, &batch(log, first)).await, BATCH as usize);
        let lanes = DB::look(&bed.pool, DB::LANES).await;
        assert_eq!(lanes.len(), 1, "one row, however many messages");
        longest = longest.max(lanes[0].len());
        row_bytes.push(DB::number::<usize>(&bed.pool, DB::ROW_BYTES).await);
    }
    let handled = began.elapsed();
    assert!(longest < 64, "a watermark of {longest} bytes");
    let growth = row_bytes[row_bytes.len() - 1] - row_bytes[0];
    assert!(growth <= 8, "the entity grew by {growth} bytes, more than its number's digits");
    assert_eq!(bed.count().await, count);
    // The broker restored from an old backup: everything once more, oldest first.
    for first in firsts() {
        assert_eq!(handle(&bed, &inbox, &batch(log, first)).await, 0);
    }
    // And one by one, after a year in which everything that ages was removed.
    let store = DB::inbox_store(bed.pool.clone());
    store.purge_inbox("c", Duration::ZERO, 1_000_000).await.expect("purged");
    for seq in [1, count / 2, count - 1, count] {
        assert_eq!(handle(&bed, &inbox, &[placed(log, seq, 0, "entity")]).await, 0);
    }
    assert_eq!(bed.count().await, count);
    assert_eq!(DB::number::<u64>(&bed.pool, DB::INBOX).await, 0, "no id is kept");
    assert_eq!(DB::look(&bed.pool, DB::LANES).await.len(), 1);
    println!(
        "{count} messages in {handled:?} and all again: 0 ids, 1 watermark of {longest} bytes at most"
    );
}

async fn r8_05_ids_are_beside_the_entity_and_gone_after_their_window<DB: Base>() {
    let (bed, inbox) = (Bed::<DB>::new().await, Inbox::<DB>::new("c"));
    let (log, count) = (Uuid::now_v7(), messages());
    let mut row_bytes = Vec::new();
    let mut old = Vec::new();
    for first in (1..=count).step_by(BATCH as usize) {
        let mut messages = batch(log, first);
        assert_eq!(handle(&bed, &inbox, &messages).await, BATCH as usize);
        row_bytes.push(DB::number::<usize>(&bed.pool, DB::ROW_BYTES).await);
        assert_eq!(handle(&bed, &inbox, &messages).await, 0, "all of them again");
        old.extend(messages.pop());
    }
    let growth = row_bytes[row_bytes.len() - 1] - row_bytes[0];
    assert!(growth <= 8, "the entity grew by {growth} bytes, more than its number's digits");
    let day = Duration::from_secs(86_400);
    let store = DB::inbox_store(bed.pool.clone());
    let purge = async || store.purge_inbox("c", day, 1_000).await.expect("purged").ids;
    assert_eq!(purge().await, 0, "none before its time");
    for some in old.chunks(BATCH as usize) {
        assert_eq!(handle(&bed, &inbox, some).await, 0);
    }
    assert_eq!(DB::number::<i64>(&bed.pool, DB::INBOX).await, count, "one id a message");
    // A year later.
    DB::act(&bed.pool, DB::AGE).await;
    let (mut purged, mut rounds) = (0, 0);
    loop {
        let ids = purge().await;
        assert!(ids <= 1_000, "in chunks");
        (purged, rounds) = (purged + ids, rounds + 1);
        if ids == 0 {
            break;
        }
    }
    assert_eq!(purged, count.unsigned_abs());
    assert_eq!(DB::number::<u64>(&bed.pool, DB::INBOX).await, 0);
    assert_eq!(bed.count().await, count);
    println!("{count} messages: {purged} ids gone in {rounds} rounds after their window");
}

on_each_database!(
    r8_06_a_watermark_keeps_one_row_and_drops_every_replay,
    r8_05_ids_are_beside_the_entity_and_gone_after_their_window,
);
