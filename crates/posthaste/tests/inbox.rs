//! R8.01 to R8.06 with the library as an application uses it, on every database.

mod desk;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use desk::{Desk, message, placed};
use posthaste::{
    Backoff, Begun, Consumer, HandleError, Handled, InboxStore, Incoming, Input, Message,
    MessageId, Relay, testing,
    testing::{MemoryBroker, Script},
};
use posthaste_core::Outcome;
use posthaste_fixtures::{Kind, server};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, MySqlPool, PgPool, SqlitePool};
use uuid::Uuid;

const TABLES: &str = "CREATE TABLE entity (id VARCHAR(40) PRIMARY KEY, value BIGINT NOT NULL);
    INSERT INTO entity VALUES ('counter', 0), ('target', 42), ('board', 0), ('coupons', 0);
    CREATE TABLE booking (id VARCHAR(40) PRIMARY KEY, state VARCHAR(20) NOT NULL)";

async fn postgres() -> PgPool {
    let url = posthaste_fixtures::fresh_database(posthaste_fixtures::postgres()).await;
    let pool = PgPool::connect(&url.expect("a database")).await.expect("a database");
    posthaste::migrate(&pool).await.expect("tables");
    pool.execute(sqlx::raw_sql(TABLES)).await.expect("tables");
    pool
}

async fn mysql() -> MySqlPool {
    let server = server(Kind::MariaDb).url();
    let name = format!("ph_{}", Uuid::new_v4().simple());
    let mut connection = MySqlConnection::connect(server).await.expect("a server");
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    connection.execute(create).await.expect("a database");
    let url = format!("{}/{name}", server.trim_end_matches('/'));
    let pool = MySqlPool::connect(&url).await.expect("a database");
    posthaste::migrate(&pool).await.expect("tables");
    pool.execute(sqlx::raw_sql(TABLES)).await.expect("tables");
    pool
}

async fn sqlite() -> (tempfile::TempDir, SqlitePool) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let pool = posthaste::sqlite::connect(&url).await.expect("a database");
    posthaste::migrate(&pool).await.expect("tables");
    pool.execute(sqlx::raw_sql(TABLES)).await.expect("tables");
    (folder, pool)
}

/// The same test body for each database: they share no type but the facade's.
macro_rules! on_each_database {
    ($name:ident, |$pool:ident, $inbox:ident, $outbox:ident| $body:expr) => {
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn on_postgres() {
                #[allow(unused_imports)]
                use posthaste::postgres::{Inbox as $inbox, Outbox as $outbox};
                let $pool = postgres().await;
                $body
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_mysql() {
                #[allow(unused_imports)]
                use posthaste::mysql::{Inbox as $inbox, Outbox as $outbox};
                let $pool = mysql().await;
                $body
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                #[allow(unused_imports)]
                use posthaste::sqlite::{Inbox as $inbox, Outbox as $outbox};
                let (_folder, $pool) = sqlite().await;
                $body
            }
        }
    };
}

macro_rules! value {
    ($pool:expr, $id:literal) => {{
        let sql = concat!("SELECT value FROM entity WHERE id = '", $id, "'");
        let value: i64 = sqlx::query_scalar(sql).fetch_one(&$pool).await.unwrap();
        value
    }};
}

const COUNT: &str = "UPDATE entity SET value = value + 1 WHERE id = 'counter'";

on_each_database!(
    r8_01_the_guard_commits_rows_messages_and_record_together,
    |pool, Inbox, Outbox| {
        let incoming = message("Add", "k", 1);
        for attempt in 0..3 {
            match Inbox::new("c").begin(&pool, &incoming).await.unwrap() {
                Begun::New(mut tx) => {
                    assert!(attempt < 2);
                    tx.execute(COUNT).await.unwrap();
                    let output = Message::new("outputs", 1, "done").unwrap();
                    Outbox::new().enqueue(&mut tx, output).await.unwrap();
                    if attempt == 0 {
                        // As a crash or an early return would.
                        drop(tx);
                    } else {
                        assert_eq!(tx.commit().await.unwrap(), Handled::Done(()));
                    }
                }
                Begun::Duplicate => assert_eq!(attempt, 2),
            }
        }
        assert_eq!(value!(pool, "counter"), 1);
        assert_eq!(testing::drain(pool).await.unwrap().len(), 1);
    }
);

/// Statements of which one takes the transaction with it, whatever the database: SQLite has one that
/// does, on PostgreSQL any that fails aborts, MariaDB is told to (deadlocks are in the inbox suite).
macro_rules! lose {
    ($tx:expr) => {
        for sql in [
            "INSERT OR ROLLBACK INTO entity VALUES ('counter', 1)",
            "INSERT INTO entity VALUES ('counter', 1)",
            "/*! ROLLBACK */",
        ] {
            let _ = $tx.execute(sql).await;
        }
    };
}

on_each_database!(a_commit_that_did_not_commit_is_an_error, |pool, Inbox, Outbox| {
    for inbox in [Inbox::new("c"), Inbox::new("c").optimistic()] {
        let incoming = message("Add", "k", 1);
        let lost = inbox.handle(&pool, &incoming, async |tx| {
            tx.execute(COUNT).await.map_err(|error| error.to_string())?;
            lose!(tx);
            // As a handler does that repeats its statement after a deadlock.
            let _ = tx.execute(COUNT).await;
            Ok::<(), String>(())
        });
        let error = lost.await.expect_err("nothing was committed").to_string();
        assert!(error.contains("PH-1014"), "{error}");
        assert_eq!(value!(pool, "counter"), 0, "nothing is half done");
        let again = inbox.handle(&pool, &incoming, async |_| Ok::<_, String>(7));
        assert_eq!(again.await.unwrap(), Handled::Done(7), "it comes again and is handled");
    }
    let mut tx = Outbox::new().begin(&pool).await.unwrap();
    tx.execute(COUNT).await.unwrap();
    Outbox::new().enqueue(&mut tx, Message::new("t", 1, "x").unwrap()).await.unwrap();
    lose!(tx);
    let _ = tx.execute(COUNT).await;
    let error = tx.commit().await.expect_err("nothing was committed");
    assert_eq!(error.kind, posthaste::StoreErrorKind::NotCommitted);
    assert_eq!(value!(pool, "counter"), 0);
    let mut tx = Outbox::new().begin(&pool).await.unwrap();
    tx.execute(COUNT).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(value!(pool, "counter"), 1);
    assert_eq!(testing::enqueued(pool).await.unwrap(), []);
});

on_each_database!(a_consumer_acknowledges_nothing_that_was_not_committed, |pool, Inbox, Outbox| {
    let desk = Desk::new();
    let attempts = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&attempts);
    let once = Duration::from_millis(1);
    let consumer = Consumer::builder(pool.clone(), Inbox::new("c"), desk.subscribe())
        .retry(Backoff { initial: once, max: once }, 5)
        .on("Add", move |tx, _| {
            let attempts = Arc::clone(&theirs);
            Box::pin(async move {
                tx.execute(COUNT).await?;
                if attempts.fetch_add(1, SeqCst) < 2 {
                    lose!(tx);
                }
                Ok(())
            })
        });
    let running = consumer.build().unwrap().spawn();
    let incoming = message("Add", "k", 1);
    desk.put(incoming.clone());
    tokio::time::timeout(Duration::from_secs(60), desk.wait_for(1)).await.expect("in time");
    running.shutdown().await.unwrap();
    assert_eq!(attempts.load(SeqCst), 3, "acknowledged only once it was committed");
    assert_eq!(value!(pool, "counter"), 1);
    let inbox = Inbox::new("c");
    let copy = inbox.handle(&pool, &incoming, async |_| Ok::<_, String>(()));
    assert_eq!(copy.await.unwrap(), Handled::Duplicate, "its id was recorded");
});

on_each_database!(r8_04_a_handler_error_leaves_nothing, |pool, Inbox, Outbox| {
    for inbox in [Inbox::new("c"), Inbox::new("c").optimistic()] {
        let incoming = message("Add", "k", 1);
        let failed = inbox.handle(&pool, &incoming, async |tx| {
            tx.execute(COUNT).await.map_err(|error| error.to_string())?;
            let output = Message::new("outputs", 1, "done").map_err(|error| error.to_string())?;
            Outbox::new().enqueue(tx, output).await.map_err(|error| error.to_string())?;
            Err::<(), String>("no".to_owned())
        });
        assert!(matches!(failed.await, Err(HandleError::Handler(why)) if why == "no"));
        assert_eq!(value!(pool, "counter"), 0);
        assert_eq!(testing::enqueued(pool.clone()).await.unwrap(), []);
        let again = inbox.handle(&pool, &incoming, async |_| Ok::<_, String>(7));
        assert_eq!(again.await.unwrap(), Handled::Done(7), "it comes again and is handled");
    }
});

on_each_database!(r8_04_a_handler_that_changes_nothing_still_records, |pool, Inbox, Outbox| {
    for inbox in [Inbox::new("a"), Inbox::new("b").optimistic(), Inbox::new("c").watermark()] {
        let incoming = placed(Uuid::nil(), 1, 0, "k");
        let mut runs = 0;
        for _ in 0..3 {
            let handled = inbox.handle(&pool, &incoming, async |_| {
                runs += 1;
                Ok::<_, String>(())
            });
            let _ = handled.await.unwrap();
        }
        assert_eq!(runs, 1, "{inbox:?}");
    }
});

on_each_database!(r8_04_a_hundred_copies_on_sixteen_threads_count_once, |pool, Inbox, Outbox| {
    for optimistic in [false, true] {
        let id = MessageId::fresh();
        let before = value!(pool, "counter");
        let done = Arc::new(AtomicU32::new(0));
        let threads = (0..16).map(|_| {
            let (pool, done) = (pool.clone(), Arc::clone(&done));
            let inbox = Inbox::new("c");
            let inbox = if optimistic { inbox.optimistic() } else { inbox };
            tokio::spawn(async move {
                // The loser of a race is told to try again, as a broker would have it do.
                let mut copies = 0;
                while copies < 100 / 16 + 1 {
                    let count = async |tx: &mut _| sqlx::query(COUNT).execute(tx).await.map(drop);
                    match inbox.handle(&pool, id, count).await {
                        Ok(handled) => {
                            done.fetch_add(u32::from(handled == Handled::Done(())), SeqCst);
                            copies += 1;
                        }
                        Err(HandleError::Inbox(error)) => assert!(error.is_retryable(), "{error}"),
                        Err(HandleError::Handler(_)) => {}
                    }
                }
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.await.unwrap();
        }
        assert_eq!(done.load(SeqCst), 1);
        assert_eq!(value!(pool, "counter") - before, 1);
    }
});

on_each_database!(r8_04_a_brand_new_entity_is_raced, |pool, Inbox, Outbox| {
    // Two copies of the first message of an entity: one insert wins. D4-03.
    let id = MessageId::fresh();
    let racers = (0..2).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move {
            loop {
                let inbox = Inbox::new("c").optimistic();
                let handled = inbox.handle(&pool, id, async |tx| {
                    sqlx::query("INSERT INTO entity VALUES ('new', 1)").execute(tx).await.map(drop)
                });
                match handled.await {
                    Ok(handled) => return handled == Handled::Done(()),
                    // The entity's own key, or the record: rolled back, and it comes again.
                    Err(HandleError::Handler(_)) => {}
                    Err(HandleError::Inbox(error)) => assert!(error.is_retryable(), "{error}"),
                }
            }
        })
    });
    let mut winners = 0;
    for racer in racers.collect::<Vec<_>>() {
        winners += u32::from(racer.await.unwrap());
    }
    assert_eq!(winners, 1);
    assert_eq!(value!(pool, "new"), 1);
});

on_each_database!(r8_04_dispatches_carry_what_was_committed_first, |pool, Inbox, Outbox| {
    let incoming = message("Add", "k", 1);
    let mut drawn = Vec::new();
    for attempt in 0..4 {
        let random = Uuid::new_v4();
        let inbox = Inbox::new("c");
        let handled = inbox.handle(&pool, &incoming, async |tx| {
            drawn.push(random);
            let output = Message::new("outputs", 1, &random).map_err(|error| error.to_string())?;
            Outbox::new().enqueue(tx, output).await.map_err(|error| error.to_string())?;
            if attempt == 0 { Err("no".to_owned()) } else { Ok(()) }
        });
        let _ = handled.await;
    }
    assert_eq!(drawn.len(), 2, "it failed once and worked once");
    // The broker takes it twice without saying so.
    let broker = MemoryBroker::new();
    let answers = AtomicU32::new(0);
    broker.set_rule(move |_| match answers.fetch_add(1, SeqCst) {
        0 | 1 => Script::TakeAndAnswer(Outcome::Unknown(posthaste_core::Failure::new("lost", ""))),
        _ => Script::Take,
    });
    let relay = Relay::builder(pool).route("all", "*", Arc::new(broker.clone())).build().unwrap();
    relay.run_once().await.unwrap();
    let sent = broker.received();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|it| *it == sent[0]), "the same id and bytes");
    assert_eq!(sent[0].payload, serde_json::to_vec(&drawn[1]).unwrap());
});

on_each_database!(r8_04_shooting_range, |pool, Inbox, Outbox| {
    let fire = message("FireAt", "a1", 42);
    let moved = message("MoveTarget", "target", 1);
    for incoming in [&fire, &moved, &fire] {
        let inbox = Inbox::new("range");
        let handled = inbox.handle(&pool, incoming, async |tx| {
            let number = desk::number(incoming);
            if incoming.message.event_type.as_deref() == Some("MoveTarget") {
                let sql = "UPDATE entity SET value = 1 WHERE id = 'target'";
                return sqlx::query(sql).execute(tx).await.map(drop).map_err(|it| it.to_string());
            }
            let sql = "SELECT value FROM entity WHERE id = 'target'";
            let target: i64 = sqlx::query_scalar(sql)
                .fetch_one(&mut *tx)
                .await
                .map_err(|error| error.to_string())?;
            let verdict = if target == number { "Hit" } else { "Missed" };
            let output = Message::new("shots", "a1", verdict).map_err(|error| error.to_string())?;
            Outbox::new().enqueue(tx, output).await.map(drop).map_err(|error| error.to_string())
        });
        let _ = handled.await.unwrap();
    }
    let shots = testing::drain(pool.clone()).await.unwrap();
    let verdicts: Vec<&[u8]> = shots.iter().map(|shot| &shot.payload[..]).collect();
    assert_eq!(verdicts, [b"\"Hit\""], "never a miss for a1");
    for _ in 0..2 {
        let inbox = Inbox::new("board");
        let board = inbox.handle(&pool, shots[0].id, async |tx| {
            let sql = "UPDATE entity SET value = value + 1 WHERE id = 'board'";
            sqlx::query(sql).execute(tx).await.map(drop)
        });
        let _ = board.await.unwrap();
    }
    assert_eq!(value!(pool, "board"), 1);
});

on_each_database!(
    r8_04_a_cancelled_booking_stays_cancelled_and_grants_one_coupon,
    |pool, Inbox, Outbox| {
        let [submit, book, cancel] = ["Submit", "Book", "Cancel"].map(|it| message(it, "b", 1));
        let set = [
            "INSERT INTO booking VALUES ('b', 'submitted')",
            "UPDATE booking SET state = 'booked' WHERE id = 'b'",
            "UPDATE booking SET state = 'cancelled' WHERE id = 'b'",
        ];
        let is_sent = std::cell::Cell::new(false);
        for (incoming, sql) in
            [(&submit, set[0]), (&book, set[1]), (&cancel, set[2]), (&book, set[1])]
        {
            let inbox = Inbox::new("bookings");
            let handled = inbox.handle(&pool, incoming, async |tx| {
                sqlx::query(sql).execute(&mut *tx).await.map_err(|error| error.to_string())?;
                if incoming.message.event_type.as_deref() == Some("Book") {
                    let grant = Message::new("coupons", "b", "GrantCoupon");
                    let grant = grant.map_err(|error| error.to_string())?;
                    Outbox::new().enqueue(tx, grant).await.map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(())
            });
            let _ = handled.await.unwrap();
            if incoming.message.id == book.message.id && !is_sent.replace(true) {
                // The first send of the coupon is lost: the broker cannot be reached.
                let broker = MemoryBroker::new();
                broker.set_down(true);
                let relay =
                    Relay::builder(pool.clone()).route("posthaste-testing", "*", Arc::new(broker));
                let running = relay.build().unwrap().spawn();
                running.shutdown().await.unwrap();
            }
        }
        let state: String =
            sqlx::query_scalar("SELECT state FROM booking").fetch_one(&pool).await.unwrap();
        assert_eq!(state, "cancelled");
        let grants = testing::drain(pool.clone()).await.unwrap();
        assert_eq!(grants.len(), 1);
        for grant in [&grants[0], &grants[0]] {
            let inbox = Inbox::new("coupons");
            let handled = inbox.handle(&pool, grant.id, async |tx| {
                let sql = "UPDATE entity SET value = value + 1 WHERE id = 'coupons'";
                sqlx::query(sql).execute(tx).await.map(drop)
            });
            let _ = handled.await.unwrap();
        }
        assert_eq!(value!(pool, "coupons"), 1);
    }
);

on_each_database!(r8_04_two_consumers_of_one_event_in_one_database, |pool, Inbox, Outbox| {
    let incoming = placed(Uuid::nil(), 1, 0, "k");
    for consumer in ["billing", "shipping", "billing", "shipping"] {
        for inbox in [Inbox::new(consumer), Inbox::new(format!("{consumer} 2")).watermark()] {
            let count = async |tx: &mut _| sqlx::query(COUNT).execute(tx).await.map(drop);
            let _ = inbox.handle(&pool, &incoming, count).await.unwrap();
        }
    }
    assert_eq!(value!(pool, "counter"), 4, "each of four consumers once");
});

/// Handles messages in transactions of so many; how many were new.
macro_rules! handle_all {
    ($inbox:expr, $pool:expr, $messages:expr, $chunk:expr) => {{
        let mut new = 0;
        for chunk in $messages.chunks($chunk) {
            let inputs: Vec<Input<'_>> = chunk.iter().map(Input::from).collect();
            let mut open = $inbox.begin_all(&$pool, &inputs).await.unwrap();
            let count = (0..chunk.len()).filter(|index| open.is_new(*index)).count();
            for _ in 0..count {
                open.execute(COUNT).await.unwrap();
            }
            new += count;
            assert_eq!(open.commit().await.unwrap(), Handled::Done(()));
        }
        new
    }};
}

#[tokio::test]
async fn r8_05_the_entity_does_not_grow_with_the_messages_it_handled() {
    let (_folder, pool) = sqlite().await;
    let inbox = posthaste::sqlite::Inbox::new("c");
    let messages: Vec<Incoming> = (0..5_000).map(|n| message("Add", "k", n)).collect();
    assert_eq!(handle_all!(inbox, pool, messages, 500), 5_000);
    assert_eq!(handle_all!(inbox, pool, messages, 500), 0, "all of them are known");
    assert_eq!(value!(pool, "counter"), 5_000);
    let bytes: i64 = sqlx::query_scalar("SELECT sum(length(value) + length(id)) FROM entity")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert!(bytes < 60, "{bytes}");
}

#[tokio::test]
async fn r8_06_a_hundred_thousand_messages_leave_one_row_and_a_late_copy_is_dropped() {
    let (_folder, pool) = sqlite().await;
    let inbox = posthaste::sqlite::Inbox::new("c").watermark();
    let log = Uuid::now_v7();
    let batch = |from: i64| -> Vec<Incoming> {
        (from..from + 1000).map(|seq| placed(log, seq, (seq - 1) / 64 * 64, "k")).collect()
    };
    for from in (1..100_000).step_by(1000) {
        let messages = batch(from);
        let inputs: Vec<Input<'_>> = messages.iter().map(Input::from).collect();
        let open = inbox.begin_all(&pool, &inputs).await.unwrap();
        assert!((0..1000).all(|index| open.is_new(index)));
        assert_eq!(open.commit().await.unwrap(), Handled::Done(()));
    }
    for from in [1, 50_001, 99_001] {
        let messages = batch(from);
        assert_eq!(handle_all!(inbox, pool, messages, 1000), 0, "a year later");
    }
    let sql = "SELECT count(*), max(length(watermark)) FROM posthaste_inbox_lane";
    let (rows, bytes): (i64, i64) = sqlx::query_as(sql).fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 1);
    assert!(bytes < 64, "{bytes}");
    let status = posthaste::sqlite::SqliteStore::new(pool).inbox_status().await.unwrap();
    assert_eq!(status[0].tally.handled, 100_000);
    assert_eq!(status[0].oldest_id_age, None, "no id is kept");
}
