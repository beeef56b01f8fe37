//! What only MySQL and MariaDB can get wrong: locks, sessions, dead connections, zones, collations.

mod bed;

use std::time::Duration;

use bed::{Bed, ROUTE, claim, fetch_after, message, payloads, serve, settlement, spec};
use posthaste_conformance::store::TestBed;
use posthaste_core::{
    Claim, Fetch, Message, Next, Park, ParkedFilter, Position, Repark, RouteSpec, Settlement,
    Shard, Store, StoreErrorKind as Kind,
};
use posthaste_fixtures::{Kind as Servers, Options, PATIENCE, Server, eventually};
use posthaste_store_mysql::{MySql, MySqlStore};
use posthaste_store_sql::{Dialect, Param, Reuse, Row, Scope, Statement, Text, Value, params};
use sqlx::{Connection, Executor, MySqlConnection, mysql::MySqlPoolOptions};
use uuid::Uuid;

/// A session of an application that gives up on locks at once.
async fn impatient(bed: &Bed, isolation: &'static str) -> MySqlConnection {
    let mut session = bed.connect().await;
    session.execute("SET SESSION innodb_lock_wait_timeout = 1").await.expect("a valid statement");
    session.execute(isolation).await.expect("a valid statement");
    session
}

const ISOLATIONS: [&str; 3] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
];

const STEPS: [&str; 2] =
    [include_str!("../sql/sequence.sql"), include_str!("../sql/sequence_run.sql")];

/// The statements of a step, up to its end, in a transaction that stays open however slow the machine
/// is: all locks it ever has.
async fn move_without_end(bed: &Bed, step: &'static str) -> MySqlConnection {
    let mut mover = bed.store.pool().acquire().await.expect("a connection").detach();
    let stays = sqlx::raw_sql("/*M! SET SESSION idle_transaction_timeout = 0 */");
    mover.execute(stays).await.expect("a valid statement");
    let (step, _) = step.split_once("COMMIT;").expect("a step that commits");
    mover.execute(sqlx::raw_sql(step)).await.expect("a valid statement");
    mover
}

#[tokio::test]
async fn an_insert_never_waits_for_a_move() {
    for step in STEPS {
        let bed = Bed::fresh().await;
        serve(&bed).await;
        // Rows before and behind those that are moved.
        let mut open = bed.pool.begin().await.unwrap();
        posthaste_store_mysql::enqueue(&mut open, &[message("open")]).await.unwrap();
        let many: Vec<Message> = (0..1_200).map(|_| message("moved")).collect();
        bed.store.append(&many).await.unwrap();
        posthaste_store_mysql::enqueue(&mut open, &[message("open")]).await.unwrap();
        let mut mover = move_without_end(&bed, step).await;
        for isolation in ISOLATIONS {
            let mut session = impatient(&bed, isolation).await;
            let mut transaction = session.begin().await.unwrap();
            posthaste_store_mysql::enqueue(&mut transaction, &[message("a"), message("b")])
                .await
                .unwrap();
            let bulk = "INSERT INTO posthaste_outbox (topic, payload) SELECT 't', 'bulk' \
                        FROM information_schema.COLLATIONS LIMIT 50";
            transaction.execute(bulk).await.unwrap();
            transaction.commit().await.unwrap();
        }
        open.commit().await.unwrap();
        mover.execute("COMMIT").await.unwrap();
        assert_eq!(bed.number("SELECT COUNT(*) FROM posthaste_log").await, 1_200);
        let request = Fetch { rows_max: 10_000, ..fetch_after(Position::default()) };
        let batch = bed.store.fetch(&request).await.unwrap();
        assert_eq!(batch.messages.len(), 1_200 + 3 * 52 + 2);
        assert!(payloads(&batch)[..1_200].iter().all(|payload| *payload == b"moved"));
        bed.remove().await;
    }
}

#[tokio::test]
async fn a_move_never_waits_for_an_open_transaction() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    let mut open = bed.pool.begin().await.unwrap();
    posthaste_store_mysql::enqueue(&mut open, &[message("open")]).await.unwrap();
    bed.store.append(&[message("1")]).await.unwrap();
    posthaste_store_mysql::enqueue(&mut open, &[message("open")]).await.unwrap();
    let store = bed.store.clone().deadline(Duration::from_secs(20));
    let batch = store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&batch), [b"1"]);
    open.rollback().await.unwrap();
    bed.remove().await;
}

/// Shards that fetch at the same time share one step, or take turns; nobody gets less for it.
#[tokio::test]
async fn whoever_waits_for_a_move_reads_what_it_moved() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    bed.store.append(&[message("1")]).await.unwrap();
    let mut mover = move_without_end(&bed, STEPS[0]).await;
    let store = MySqlStore::new(bed.pool.clone()).deadline(PATIENCE);
    let request = fetch_after(Position::default());
    let fetching = tokio::spawn(async move { store.fetch(&request).await });
    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                   WHERE DB = DATABASE() AND INFO LIKE 'SELECT seq INTO%FOR UPDATE'";
    eventually("fetch that waits", async || (bed.number(waiting).await > 0).then_some(())).await;
    mover.execute("COMMIT").await.unwrap();
    let batch = fetching.await.unwrap().unwrap();
    assert_eq!(payloads(&batch), [b"1"]);
    bed.remove().await;
}

/// A relay that dies in the middle of a step has moved nothing.
#[tokio::test]
async fn a_move_that_is_cut_short_moved_nothing() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    bed.store.append(&["1", "2"].map(message)).await.unwrap();
    let mover = move_without_end(&bed, STEPS[0]).await;
    mover.close().await.unwrap();
    assert_eq!(bed.number("SELECT COUNT(*) FROM posthaste_log").await, 0);
    assert_eq!(bed.number("SELECT COUNT(*) FROM posthaste_outbox").await, 2);
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&batch), [b"1", b"2"]);
    assert_eq!(batch.messages.last().unwrap().seq, 2);
    bed.remove().await;
}

/// One step is bounded; `more` says that there is more than it moved.
#[tokio::test]
async fn a_backlog_is_moved_in_steps() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    let large = |number: u8| Message::from_bytes("t", None, vec![number; 6 << 20]);
    bed.store.append(&[1, 2, 3, 4, 5].map(large)).await.unwrap();
    let mut request = Fetch { bytes_max: 64 << 20, ..fetch_after(Position::default()) };
    let mut sizes = Vec::new();
    loop {
        let batch = bed.store.fetch(&request).await.unwrap();
        sizes.push(batch.messages.len());
        request.after = request.after.passed(batch.end, &batch.snapshot);
        if !batch.more {
            break;
        }
    }
    assert_eq!(sizes.iter().sum::<usize>(), 5);
    assert_eq!(sizes[0], 2, "16 MiB at a time: {sizes:?}");
    bed.remove().await;
}

/// A backlog of runs, with gaps of open and of rolled-back transactions between and behind them.
#[tokio::test]
async fn a_backlog_with_gaps_is_moved_in_order() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    let message = |number: usize| Message::from_bytes("t", Some("k"), number.to_string());
    let mut open = Vec::new();
    let mut number = 0;
    for rows in [6_000, 5_000, 3, 1_500, 12_000, 1] {
        let messages: Vec<Message> = (number..number + rows).map(message).collect();
        bed.store.append(&messages).await.unwrap();
        number += rows;
        let mut gap = bed.pool.begin().await.unwrap();
        posthaste_store_mysql::enqueue(&mut gap, &[Message::from_bytes("t", None, "gap")])
            .await
            .unwrap();
        open.push(gap);
    }
    let mut request = Fetch { bytes_max: 1 << 30, ..fetch_after(Position::default()) };
    let mut read: Vec<String> = Vec::new();
    loop {
        let batch = bed.store.fetch(&request).await.unwrap();
        read.extend(payloads(&batch).iter().map(|text| String::from_utf8_lossy(text).into_owned()));
        request.after = request.after.passed(batch.end, &batch.snapshot);
        if !batch.more {
            break;
        }
    }
    assert!(read.iter().enumerate().all(|(index, text)| *text == index.to_string()));
    assert_eq!(read.len(), number);
    for (index, gap) in open.into_iter().enumerate() {
        if index % 2 == 0 { gap.commit().await } else { gap.rollback().await }.unwrap();
    }
    let batch = bed.store.fetch(&request).await.unwrap();
    assert_eq!(payloads(&batch), [b"gap"; 3]);
    assert_eq!(bed.number("SELECT COUNT(*) FROM posthaste_outbox").await, 0);
    bed.remove().await;
}

#[tokio::test]
async fn call_that_misses_its_deadline_closes_its_connection() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    let store = MySqlStore::new(bed.pool.clone()).deadline(Duration::from_millis(300));
    let mut session = bed.connect().await;
    session.execute("LOCK TABLES posthaste_route WRITE").await.unwrap();
    let late = store.acquire(&claim()).await.unwrap_err();
    assert_eq!(late.kind, Kind::Unavailable);
    assert_eq!(store.pool().size(), 0, "it may still be answered, so nobody may use it again");
    session.execute("UNLOCK TABLES").await.unwrap();
    store.deadline(PATIENCE).register(&spec(1)).await.unwrap();
    bed.remove().await;
}

/// sqlx leaves the connection inside a transaction when a `begin` is dropped half-way.
#[tokio::test]
async fn a_dropped_call_leaves_no_transaction_open() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    let pool = bed.store.pool();
    for _ in 0..20 {
        let settlement = posthaste_core::Settlement::default();
        let mut call = bed.store.settle(&grant.lease, &settlement);
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(call.as_mut().poll(context).is_pending())
        });
        assert!(polled.await, "the call is under way");
    }
    let open = "SELECT COUNT(*) FROM information_schema.INNODB_TRX AS open \
                JOIN information_schema.PROCESSLIST AS session \
                    ON session.ID = open.trx_mysql_thread_id \
                WHERE session.DB = DATABASE()";
    let all_end = async {
        // The first is a copy, which is made anew when nobody has read it for a tenth of a second.
        while bed.number(open).await > 0 || pool.num_idle() < usize::try_from(pool.size()).unwrap()
        {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_end).await.expect("every transaction ends");
    bed.remove().await;
}

/// The driver does not know of the transaction, so it would not roll it back.
#[tokio::test]
async fn a_call_that_panics_closes_its_connection() {
    let bed = Bed::fresh().await;
    let store = MySqlStore::new(bed.pool.clone());
    let call = store.call::<(), ()>("test", Scope::Transaction, (), |session, _| {
        Box::pin(async move {
            session.run(Statement::StatusRoutes, &[]).await?;
            panic!("as it should");
        })
    });
    assert_eq!(call.await.unwrap_err().kind, Kind::Internal);
    assert_eq!(store.pool().size(), 0, "its transaction is still open");
    bed.remove().await;
}

/// The same for a handler's transaction, whose pool is the application's: it would do its own work in
/// a transaction that nobody commits.
#[tokio::test]
async fn a_dropped_begin_leaves_no_transaction_open() {
    let bed = Bed::fresh().await;
    // One connection, which does nothing before it begins.
    let pool = MySqlPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = pool.connect(&bed.url).await.unwrap();
    for polls in (1..=4).cycle().take(200) {
        let mut begin = Box::pin(posthaste_store_mysql::begin(&pool));
        for _ in 0..polls {
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(begin.as_mut().poll(context).is_ready())
            });
            if polled.await {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(begin);
        let inside = "SELECT CAST(@@in_transaction AS SIGNED)";
        let is_inside: i64 = sqlx::query_scalar(inside).fetch_one(&pool).await.unwrap();
        assert_eq!(is_inside, 0, "dropped after {polls} polls");
        let autocommit = "SELECT CAST(@@autocommit AS SIGNED)";
        let autocommit: i64 = sqlx::query_scalar(autocommit).fetch_one(&pool).await.unwrap();
        assert_eq!(autocommit, 1, "the application's session is as it was");
    }
    pool.close().await;
    bed.remove().await;
}

/// Two transactions that wait for each other: the server ends ours, and we try again.
#[tokio::test]
async fn a_deadlock_is_tried_again() {
    let bed = Bed::fresh().await;
    bed.store.register(&spec(2)).await.unwrap();
    let mut session = bed.connect().await;
    let mut other = session.begin().await.unwrap();
    // The server ends whoever has written less.
    let heavy = "INSERT INTO posthaste_outbox (topic, payload) SELECT 't', '' \
                 FROM information_schema.COLLATIONS";
    other.execute(heavy).await.unwrap();
    other.execute("SELECT 1 FROM posthaste_lease WHERE shard = 1 FOR UPDATE").await.unwrap();
    let store = bed.store.clone();
    let other_topics = RouteSpec { topics: vec!["orders".parse().unwrap()], ..spec(2) };
    let call = tokio::spawn(async move { store.register(&other_topics).await });
    // Not INNODB_TRX: that is a copy, which is not made anew as long as somebody reads it all the time.
    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() \
                   AND INFO LIKE '%posthaste_lease%' AND ID <> CONNECTION_ID()";
    let mut looks = 0;
    eventually("call that waits", async || {
        looks = if bed.number(waiting).await == 1 { looks + 1 } else { 0 };
        (looks == 2).then_some(())
    })
    .await;
    other.execute("SELECT 1 FROM posthaste_lease WHERE shard = 0 FOR UPDATE").await.unwrap();
    other.commit().await.unwrap();
    assert_eq!(call.await.unwrap().unwrap().shards, 2);
    bed.remove().await;
}

/// Running out of time for a lock undoes one statement; we undo the transaction.
#[tokio::test]
async fn a_lock_that_is_never_free_is_reported_and_leaves_nothing() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    let mut session = bed.connect().await;
    let mut other = session.begin().await.unwrap();
    other.execute("SELECT 1 FROM posthaste_lease FOR UPDATE").await.unwrap();
    let settled = bed.store.settle(&grant.lease, &settlement(Position::at(1, ""))).await;
    let error = settled.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable, "{error:?}");
    assert!(error.is_retryable());
    other.rollback().await.unwrap();
    assert_eq!(bed.number("SELECT COUNT(*) FROM posthaste_progress WHERE seq > 0").await, 0);
    bed.store.settle(&grant.lease, &settlement(Position::at(1, ""))).await.unwrap();
    bed.remove().await;
}

/// A server that stops answering costs a call its deadline, and nothing else.
#[tokio::test]
async fn a_frozen_server_hangs_nobody() {
    let server = Server::private(Servers::MariaDb, &Options::default()).expect("a MariaDB");
    let bed = Bed::fresh_on(server.url()).await;
    serve(&bed).await;
    bed.store.append(&[message("1")]).await.unwrap();
    let store = bed.store.clone().deadline(Duration::from_millis(500));
    server.freeze().unwrap();
    let error = store.fetch(&fetch_after(Position::default())).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable, "{error:?}");
    let error = store.append(&[message("2")]).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable, "{error:?}");
    server.thaw().unwrap();
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&batch)[0], b"1");
    server.kill().unwrap();
    let error = store.status().await.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable, "{error:?}");
    server.start_again().unwrap();
    // Connections that died with it are found out one by one.
    let store = store.deadline(PATIENCE);
    let mut outcome = store.status().await;
    for _ in 0..posthaste_store_mysql::CONNECTIONS_MAX {
        outcome = store.status().await;
    }
    outcome.unwrap();
}

/// A server whose defaults are all wrong for us: sessions have their own.
#[tokio::test]
async fn strange_defaults_change_nothing() {
    let settings = [
        ("sql_mode", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH"),
        ("transaction-isolation", "SERIALIZABLE"),
        ("default-time-zone", "+05:30"),
        ("character-set-server", "latin1"),
        ("collation-server", "latin1_general_ci"),
        ("auto_increment_increment", "7"),
        ("auto_increment_offset", "3"),
        ("innodb_flush_log_at_trx_commit", "2"),
        ("log_bin", "binlog"),
        ("binlog_format", "STATEMENT"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = Options { settings: settings.to_vec(), ..Options::default() };
    let server = Server::private(Servers::MariaDb, &options).expect("a MariaDB");
    let bed = Bed::bare_on(server.url()).await;
    // What cannot work is said, with its fix.
    let refused = posthaste_store_mysql::migrate(&bed.pool).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert!(refused.message.contains("binlog_format"), "{refused}");
    let findings = bed.store.examine().await.unwrap();
    let problems = findings.iter().filter(|finding| !finding.ok).map(|finding| &*finding.what);
    let problems: Vec<&str> = problems.collect();
    for name in ["SERIALIZABLE", "sql_mode", "innodb_flush", "binlog_format STATEMENT"] {
        assert!(problems.iter().any(|what| what.contains(name)), "{name} in {problems:?}");
    }
    bed.run("SET GLOBAL binlog_format = 'ROW'").await;
    let bed = Bed::fresh_on(server.url()).await;
    serve(&bed).await;
    let mut session = bed.connect().await;
    session.execute("SET time_zone = '-11:00'").await.unwrap();
    session
        .execute("INSERT INTO posthaste_outbox (topic, \"key\", payload) VALUES ('é', 'a\\', 'x')")
        .await
        .unwrap();
    bed.store.append(&["1", "2"].map(message)).await.unwrap();
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&batch), [b"x", b"1", b"2"]);
    let first = &batch.messages[0];
    assert_eq!((first.message.topic.as_str(), first.message.key.as_deref()), ("é", Some("a\\")));
    assert!(batch.messages.iter().all(|fetched| fetched.age < Duration::from_secs(600)));
    assert_eq!(batch.messages.iter().map(|fetched| fetched.seq).collect::<Vec<_>>(), [1, 2, 3]);
}

/// Default collations take each pair for the same.
#[tokio::test]
async fn names_that_a_collation_takes_for_one_are_two() {
    let bed = Bed::fresh().await;
    let names = ["abc", "ABC", "q", "q ", "é", "e\u{301}", "ß", "ss"];
    for name in names {
        let spec =
            RouteSpec { name: name.to_owned(), topics: vec![name.parse().unwrap()], shards: 1 };
        bed.store.register(&spec).await.unwrap();
        let claim = Claim { route: name.to_owned(), ..claim() };
        assert!(bed.store.acquire(&claim).await.unwrap().is_some(), "{name:?}");
    }
    let sent = names.map(|name| Message::from_bytes(name, Some(name), name));
    bed.store.append(&sent).await.unwrap();
    for name in names {
        let request = Fetch { route: name.to_owned(), ..fetch_after(Position::default()) };
        let batch = bed.store.fetch(&request).await.unwrap();
        assert_eq!(payloads(&batch), [name.as_bytes()], "{name:?}");
        assert_eq!(batch.messages[0].message.key.as_deref(), Some(name));
    }
    assert_eq!(bed.store.status().await.unwrap().routes.len(), names.len());
    bed.remove().await;
}

/// A holder from before a resize knows of no stop; where it read past it, the stop moves on.
#[tokio::test]
async fn barrier_moves_ahead_of_a_holder_that_read_past_it() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    bed.store.register(&spec(2)).await.unwrap();
    bed.store.append(&[message("1")]).await.unwrap();
    let batch = bed.store.fetch(&fetch_after(grant.position)).await.unwrap();
    let past = Position::default().passed(batch.end, &batch.snapshot);
    bed.store.settle(&grant.lease, &settlement(past.clone())).await.unwrap();
    bed.store.release(&grant.lease).await.unwrap();

    let grant = bed.store.acquire(&claim()).await.unwrap().expect("it was released");
    assert_eq!(grant.position, past);
    let request = Fetch { until: grant.until.clone(), ..fetch_after(grant.position.clone()) };
    bed.store.append(&[message("2")]).await.unwrap();
    let batch = bed.store.fetch(&request).await.unwrap();
    assert!(batch.messages.is_empty(), "1 was read, 2 lies behind the stop");
    let stop = grant.position.passed(batch.end, &batch.snapshot);
    assert_eq!(Some(&stop), grant.until.as_ref());
    bed.store.settle(&grant.lease, &settlement(stop)).await.unwrap();
    let layout = bed.store.reshard(ROUTE).await.unwrap();
    assert_eq!((layout.shards, layout.resizing_to), (2, None));
    let shard = Shard { index: 0, of: 2 };
    assert!(bed.store.acquire(&Claim { shard, ..claim() }).await.unwrap().is_some());
    bed.remove().await;
}

/// Reading the log reads no more of it than it returns.
#[tokio::test]
async fn fetch_reads_by_index() {
    let bed = Bed::fresh().await;
    bed.run(
        "INSERT INTO posthaste_log (seq, outbox_seq, id, topic, content_type, created_at, \
             payload_bytes, payload) \
         SELECT ROW_NUMBER() OVER (), 1, UUID(), 't', 'c', UTC_TIMESTAMP(6), 200, \
             REPEAT('x', 200) \
         FROM information_schema.COLLATIONS AS one \
         JOIN information_schema.COLLATIONS AS other LIMIT 20000; \
         ANALYZE TABLE posthaste_log",
    )
    .await;
    let scan = params![small: 1000_i64, after: 15_000_i64, until: i64::MAX, limit: 1001_i64];
    let plan = plan(&bed, "fetch_scan", &scan).await;
    let [step] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!((step.access.as_str(), step.key.as_str()), ("range", "PRIMARY"));
    bed.remove().await;
}

/// One step of a plan.
#[derive(Debug)]
struct Step {
    table: String,
    access: String,
    key: String,
}

/// How the server goes about a statement.
async fn plan(bed: &Bed, file: &'static str, given: &[Param<'_>]) -> Vec<Step> {
    let text = MySql::shared().texts().get(file).expect("a statement");
    let values: Vec<&Value<'_>> = text
        .params
        .iter()
        .map(|name| &given.iter().find(|(given, _)| given == name).expect("a parameter").1)
        .collect();
    let sql = format!("EXPLAIN {}", text.sql);
    let text = Box::leak(Box::new(Text { name: file, sql, params: text.params.clone() }));
    // In the sessions of the store, which are strict.
    let mut connection = bed.store.pool().acquire().await.expect("a connection");
    let outcome = MySql::shared().run(&mut connection, text, &values, Reuse::Unnamed).await;
    let cell = |row: &Row, index| row.string(index).expect("a text");
    let step = |row: &Row| Step { table: cell(row, 2), access: cell(row, 3), key: cell(row, 5) };
    outcome.expect("a plan").rows.iter().map(step).collect()
}

/// A list of ids or seqs is looked up one by one; pages of keys and letters are read in order.
#[tokio::test]
async fn statements_with_lists_and_pages_read_by_index() {
    let bed = Bed::fresh().await;
    bed.run(
        "INSERT INTO posthaste_inbox (consumer, id) \
         SELECT 'c', UNHEX(MD5(ROW_NUMBER() OVER ())) \
         FROM information_schema.COLLATIONS AS one \
         JOIN information_schema.COLLATIONS AS other LIMIT 20000; \
         INSERT INTO posthaste_inbox_page (consumer, log, lane, topic, shards, shard, number, seqs) \
         SELECT 'c', UNHEX(MD5('log')), 'l', 't', 1, 0, ROW_NUMBER() OVER (), '' \
         FROM information_schema.COLLATIONS AS one \
         JOIN information_schema.COLLATIONS AS other LIMIT 20000; \
         INSERT INTO posthaste_parked (route, seq, bucket, id, topic, `key`, content_type, created_at, \
             state, parked_at, state_at, payload_bytes, payload) \
         SELECT 'all', ROW_NUMBER() OVER () AS seq, 0, UUID(), 't', CONCAT('k', RAND()), 'c', \
             UTC_TIMESTAMP(6), IF(RAND() < 0.5, 'retrying', 'dead'), UTC_TIMESTAMP(6), \
             UTC_TIMESTAMP(6), 0, '' \
         FROM information_schema.COLLATIONS AS one \
         JOIN information_schema.COLLATIONS AS other LIMIT 20000; \
         ANALYZE TABLE posthaste_inbox, posthaste_inbox_page, posthaste_parked",
    )
    .await;
    let (log, ids) = (Uuid::from_u128(7), vec![Uuid::from_u128(1), Uuid::from_u128(2)]);
    let lane = params![
        consumer: "c",
        log: log,
        lane: "l",
        topic: "t",
        of: 1_u16,
        index: 0_u16,
        ids: ids,
        numbers: vec![1, 2],
    ];
    let blocked = params![route: "all", of: 1_u16, index: 0_u16, after: "k", limit: 1000_i64];
    let dead = params![
        state: "dead",
        route: None::<&str>,
        ids: None::<Vec<Uuid>>,
        topic: None::<&str>,
        class: None::<&str>,
        from: 19_000_i64,
        limit: 100_i64,
    ];
    for (file, params, table, access, key) in [
        ("inbox_recorded", &lane[..], "inbox", &["eq_ref", "ref"] as &[_], "PRIMARY"),
        ("inbox_read_pages", &lane, "page", &["eq_ref", "ref"], "PRIMARY"),
        ("blocked_keys", &blocked, "posthaste_parked", &["range"], "posthaste_parked_held"),
        ("dead_matching", &dead, "posthaste_parked", &["range", "ref"], "posthaste_parked_dead"),
    ] {
        let plan = plan(&bed, file, params).await;
        let step = plan.iter().find(|step| step.table == table);
        let step = step.unwrap_or_else(|| panic!("{file}: {plan:?}"));
        assert!(access.contains(&step.access.as_str()), "{file}: {plan:?}");
        assert_eq!(step.key, key, "{file}: {plan:?}");
    }
    bed.remove().await;
}

/// With this setting a lock that cannot be had undoes the whole transaction, and not the statement.
#[tokio::test]
async fn a_transaction_that_a_lock_timeout_rolled_back_is_not_committed() {
    let settings = [("innodb_rollback_on_timeout", "ON"), ("innodb_lock_wait_timeout", "1")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = Options { settings: settings.to_vec(), ..Options::default() };
    let server = Server::private(Servers::MariaDb, &options).expect("a MariaDB");
    let bed = Bed::fresh_on(server.url()).await;
    let account = "CREATE TABLE account (id INT PRIMARY KEY, n INT);
        INSERT INTO account VALUES (1, 0), (2, 0)";
    bed.run(account).await;
    let mut session = bed.connect().await;
    let mut other = session.begin().await.unwrap();
    other.execute("UPDATE account SET n = 9 WHERE id = 2").await.unwrap();
    let mut tx = posthaste_store_mysql::begin(&bed.pool).await.unwrap();
    tx.execute("UPDATE account SET n = 1 WHERE id = 1").await.unwrap();
    tx.execute("UPDATE account SET n = 1 WHERE id = 2").await.unwrap_err();
    other.rollback().await.unwrap();
    tx.execute("UPDATE account SET n = 1 WHERE id = 2").await.unwrap();
    let error = tx.commit().await.expect_err("half of it is gone");
    assert_eq!(error.kind, Kind::NotCommitted, "{error}");
    assert_eq!(bed.number("SELECT CAST(SUM(n) AS SIGNED) FROM account").await, 0);
    bed.remove().await;
}

/// What the guide says to do: nothing of the route is left but its parked messages.
#[tokio::test]
async fn messages_of_a_route_that_was_removed_are_told_until_they_are_given_up() {
    const HOUR: Duration = Duration::from_secs(3600);
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    let park = |seq, next| Park {
        message: message("parked"),
        age: Duration::ZERO,
        report: Repark { seq, attempts: 1, unknowns: 0, failure: None, next },
    };
    let parks = vec![park(1, Next::Retry(HOUR)), park(2, Next::Retry(HOUR)), park(3, Next::Dead)];
    let settlement = Settlement { park: parks, ..Settlement::default() };
    bed.store.settle(&grant.lease, &settlement).await.unwrap();
    for (table, column) in [("lease", "route"), ("progress", "route"), ("route", "name")] {
        let delete = format!("DELETE FROM posthaste_{table} WHERE {column} = '{ROUTE}'");
        sqlx::query(sqlx::AssertSqlSafe(delete)).execute(&bed.pool).await.unwrap();
    }
    let status = bed.store.status().await.unwrap();
    let [route] = status.routes.as_slice() else { panic!("{:?}", status.routes) };
    assert_eq!((route.name.as_str(), route.registered), (ROUTE, false));
    assert_eq!((route.retrying, route.dead), (2, 1));
    assert!(route.oldest_retrying_age_seconds > 0.0, "{route:?}");
    let dead = ParkedFilter { route: Some(ROUTE.to_owned()), ..ParkedFilter::default() };
    let retrying = ParkedFilter { is_retrying: true, ..dead.clone() };
    assert_eq!(bed.store.discard(&retrying, "ada", "removed").await.unwrap(), 2);
    assert_eq!(bed.store.discard(&dead, "ada", "removed").await.unwrap(), 1);
    assert!(bed.store.status().await.unwrap().routes.is_empty(), "what is discarded needs nobody");
    bed.remove().await;
}
