//! R8.06: a SQLite file is put back to where it was, nobody runs `migrate --adopt`, and its outbox hands
//! positions out a second time under the same log.

use std::{fs, path::Path, sync::Arc};

use posthaste::{Broker, Database, Inbox, InboxError, Incoming, Message, Outbox, Relay};
use sqlx::Sqlite;
use tokio::time::timeout;

use crate::{
    bed::{Bed, LONG, tell},
    floors::Lane,
};

/// Messages before the backup, after it, and after it was put back.
const MESSAGES: usize = 20;

/// Enqueues messages in the file's outbox and relays them.
async fn send(file: &Path, lane: &Arc<Lane>) {
    let pool = posthaste::sqlite::connect(&format!("sqlite:{}", file.display())).await.expect("it");
    posthaste::migrate(&pool).await.expect("tables");
    let messages = (0..MESSAGES).map(|n| Message::new("orders", n % 3, &n).expect("a message"));
    let mut tx = pool.begin().await.expect("a transaction");
    Outbox::<Sqlite>::new().enqueue_all(&mut tx, messages).await.expect("enqueued");
    tx.commit().await.expect("a commit");
    let broker: Arc<dyn Broker> = Arc::clone(lane) as Arc<dyn Broker>;
    let relay = Relay::builder(pool.clone()).route("all", "*", broker).build().expect("a relay");
    timeout(LONG, relay.run_once()).await.expect("in time").expect("everything is sent");
    pool.close().await;
}

async fn handle(bed: &Bed<Sqlite>, incoming: &Incoming) -> Result<(), InboxError> {
    let inbox = Inbox::<Sqlite>::new("c").watermark();
    let mut tx = inbox.begin_all(&bed.pool, &[incoming.into()]).await?;
    if tx.is_new(0) {
        tell::<Sqlite>(&mut tx, &incoming.message.id.to_string()).await.expect("a row");
    }
    tx.commit().await.map(drop)
}

#[tokio::test]
async fn r8_06_new_messages_of_a_source_that_was_put_back_are_not_taken_for_copies() {
    let (bed, lane) = (Bed::<Sqlite>::new().await, Arc::new(Lane::default()));
    let folder = tempfile::tempdir().expect("a folder");
    let (file, backup) = (folder.path().join("shop.db"), folder.path().join("backup.db"));
    send(&file, &lane).await;
    fs::copy(&file, &backup).expect("a backup");
    send(&file, &lane).await;
    let before = lane.arrived().len();
    fs::copy(&backup, &file).expect("put back");
    send(&file, &lane).await;

    let arrived = lane.arrived().clone();
    let (old, new) = arrived.split_at(before);
    for incoming in old {
        handle(&bed, incoming).await.expect("handled, or a copy");
    }
    let error = handle(&bed, &new[0]).await.expect_err("never dropped in silence");
    let InboxError::ReusedPosition { log, .. } = error else { panic!("{error}") };
    assert_eq!(bed.told().await.len(), 2 * MESSAGES, "and nothing else has happened");

    let store = Sqlite::inbox_store(bed.pool.clone());
    assert!(store.adopt_log("c", "/shop", log, "ann").await.expect("adopted"));
    assert_eq!(store.forget_log("c", log).await.expect("forgotten"), 1);
    for incoming in new {
        handle(&bed, incoming).await.expect("handled, or a copy");
    }
    assert_eq!(bed.told().await.len(), 3 * MESSAGES);
}
