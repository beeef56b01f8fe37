//! What only PostgreSQL can have: two sessions meeting in a lock, snapshots, plans.

mod bed;

use std::time::Duration;

use bed::{Bed, ROUTE, TTL, claim, fetch_after, message, payloads, serve, settlement};
use posthaste_conformance::store::TestBed;
use posthaste_core::{Fetch, Position, RouteSpec, Store, StoreErrorKind as Kind};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row, postgres::PgPoolOptions};

/// Returns once a session of the store waits for a lock.
async fn until_blocked(connection: &mut PgConnection) {
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND application_name = 'posthaste' AND wait_event_type = 'Lock'";
    let look = async {
        while sqlx::query_scalar::<_, i64>(blocked)
            .fetch_one(&mut *connection)
            .await
            .expect("a count")
            == 0
        {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), look).await;
    waited.expect("a session of the store waits for a lock");
}

/// The open writer has the highest id there is, so the snapshot that sees the other one's row ends
/// below it: only the settlement's own id tells that it must be waited for.
#[tokio::test]
async fn open_writer_below_is_waited_for_before_anything_is_past() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    let mut early = bed.begin().await;
    early.touch().await;
    let mut late = bed.begin().await;
    late.enqueue(&[message("1")]).await.unwrap();
    early.enqueue(&[message("2")]).await.unwrap();
    early.commit().await;
    let first = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    let position = Position::at(first.end, first.snapshot.clone());
    let settled = bed.store.settle(&grant.lease, &settlement(position.clone())).await.unwrap();
    assert!(!bed.store.is_past(&settled.horizon, &first.snapshot));
    let second = bed.store.fetch(&fetch_after(position.clone())).await.unwrap();
    assert!(!bed.store.is_past(&settled.horizon, &second.snapshot), "{}", second.snapshot);
    late.commit().await;
    let is_past = async {
        loop {
            let batch = bed.store.fetch(&fetch_after(position.clone())).await.unwrap();
            if bed.store.is_past(&settled.horizon, &batch.snapshot) {
                return batch;
            }
            tokio::task::yield_now().await;
        }
    };
    let batch = tokio::time::timeout(Duration::from_secs(60), is_past).await;
    assert_eq!(payloads(&batch.expect("every writer has ended")), [b"1"], "and it has been read");
    bed.remove().await;
}

/// A writer with an early transaction id that inserts late, and the other way round: neither is
/// skipped, and the order is that of seq.
#[tokio::test]
async fn early_transaction_that_inserts_late_is_not_skipped() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    let mut early = bed.begin().await;
    early.touch().await;
    let mut late = bed.begin().await;
    late.enqueue(&[message("1")]).await.unwrap();
    early.enqueue(&[message("2")]).await.unwrap();
    early.commit().await;
    let first = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&first), [b"2"]);
    late.commit().await;
    bed.store.append(&[message("3")]).await.unwrap();
    let after = Position::default().passed(first.end, &first.snapshot);
    let second = bed.store.fetch(&fetch_after(after)).await.unwrap();
    assert_eq!(payloads(&second), [b"1", b"3"]);
    bed.remove().await;
}

#[tokio::test]
async fn open_writer_in_another_database_delays_nothing() {
    let (bed, other) = (Bed::fresh().await, Bed::fresh().await);
    serve(&bed).await;
    let mut foreign = other.begin().await;
    foreign.enqueue(&[message("elsewhere")]).await.unwrap();
    bed.store.append(&[message("1")]).await.unwrap();
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&batch), [b"1"]);
    foreign.commit().await;
    other.remove().await;
    bed.remove().await;
}

/// A settlement in flight is not lost on the next holder: the take-over waits for it.
#[tokio::test]
async fn take_over_waits_for_a_settlement_in_flight() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    bed.advance(TTL * 2).await;
    let mut session = bed.connect().await;
    let mut settling = session.begin().await.unwrap();
    let position = Position::at(7, "3:3:");
    sqlx::query(include_str!("../sql/settle_position.sql"))
        .bind(ROUTE)
        .bind(0)
        .bind(grant.lease.relay.0)
        .bind(grant.lease.epoch)
        .bind(position.to_string())
        .bind(position.seq())
        .execute(&mut *settling)
        .await
        .unwrap();
    let store = bed.store.clone();
    let take_over = tokio::spawn(async move { store.acquire(&claim()).await });
    until_blocked(&mut bed.connect().await).await;
    settling.commit().await.unwrap();
    let next = take_over.await.unwrap().unwrap().expect("the lease had expired");
    assert_eq!(next.position, position);
    assert!(next.lease.epoch > grant.lease.epoch);
    bed.remove().await;
}

/// Also with a strict default isolation, under which the settlement would fail in another way.
#[tokio::test]
async fn settlement_that_waits_for_a_take_over_is_fenced() {
    let bed = Bed::fresh().await;
    bed.run(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = \
         ''serializable''', current_database()); END $$",
    )
    .await;
    let grant = serve(&bed).await;
    let mut session = bed.connect().await;
    let mut taking = session.begin().await.unwrap();
    taking
        .execute("UPDATE posthaste.lease SET relay = gen_random_uuid(), epoch = epoch + 1")
        .await
        .unwrap();
    let store = bed.store.clone();
    let settle = tokio::spawn(async move {
        let settlement = settlement(Position::at(7, "3:3:"));
        store.settle(&grant.lease, &settlement).await
    });
    until_blocked(&mut bed.connect().await).await;
    taking.commit().await.unwrap();
    let refused = settle.await.unwrap().unwrap_err();
    assert_eq!(refused.kind, Kind::Fenced);
    let written: i64 = sqlx::query_scalar("SELECT count(*) FROM posthaste.progress")
        .fetch_one(&bed.pool)
        .await
        .unwrap();
    assert_eq!(written, 0);
    bed.remove().await;
}

#[tokio::test]
async fn call_that_misses_its_deadline_closes_its_connection() {
    let bed = Bed::fresh().await;
    let store = bed.store.clone().deadline(Duration::from_millis(300));
    let mut session = bed.connect().await;
    let mut locking = session.begin().await.unwrap();
    locking.execute("LOCK TABLE posthaste.route").await.unwrap();
    let late = store.acquire(&claim()).await.unwrap_err();
    assert_eq!(late.kind, Kind::Unavailable);
    assert_eq!(store.pool().size(), 0, "it may still be answered, so nobody may use it again");
    locking.rollback().await.unwrap();
    serve(&bed).await;
    bed.remove().await;
}

/// sqlx leaves the connection inside a transaction when a `begin` is dropped half-way.
#[tokio::test]
async fn a_dropped_call_leaves_no_transaction_open() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    let pool = bed.store.pool();
    for _ in 0..20 {
        let request = fetch_after(Position::default());
        let mut call = bed.store.fetch(&request);
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(call.as_mut().poll(context).is_pending())
        });
        assert!(polled.await, "the call is under way");
    }
    while pool.num_idle() < usize::try_from(pool.size()).unwrap() {
        tokio::task::yield_now().await;
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND state LIKE 'idle in transaction%'";
    // What was dropped last may still be on its way through the server.
    let none_stays = async {
        while sqlx::query_scalar::<_, i64>(open).fetch_one(&bed.pool).await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, none_stays).await.expect("no transaction stays open");
    bed.remove().await;
}

/// The same for a handler's transaction, whose pool is the application's: it would do its own work in
/// a transaction that nobody commits.
#[tokio::test]
async fn a_dropped_begin_leaves_no_transaction_open() {
    let bed = Bed::fresh().await;
    // One connection, which does nothing before it begins.
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = pool.connect(&bed.url).await.unwrap();
    for polls in (1..=4).cycle().take(200) {
        let mut begin = Box::pin(posthaste_store_postgres::begin(&pool));
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
        // Raw, so that it is one message to the server: outside a transaction it begins its own.
        let inside = sqlx::raw_sql("SELECT now() < statement_timestamp()");
        let row = pool.fetch_one(inside).await.unwrap();
        assert!(!row.get::<bool, _>(0), "dropped after {polls} polls");
    }
    pool.close().await;
    bed.remove().await;
}

/// What a pooler in transaction mode cannot carry: statements that stay prepared in a session.
#[tokio::test]
async fn calls_leave_nothing_in_the_session() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    bed.store.append(&[message("1"), message("2")]).await.unwrap();
    bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    bed.store.settle(&grant.lease, &settlement(Position::at(2, "3:3:"))).await.unwrap();
    bed.store.due(&grant.lease, 10, usize::MAX).await.unwrap();
    bed.store.status().await.unwrap();
    for _ in 0..bed.store.pool().size() {
        let mut connection = bed.store.pool().acquire().await.unwrap().detach();
        let left = "SELECT count(*) FROM pg_prepared_statements";
        let left: i64 =
            sqlx::query_scalar(left).persistent(false).fetch_one(&mut connection).await.unwrap();
        assert_eq!(left, 0);
    }
    bed.remove().await;
}

/// A holder from before a resize knows of no stop; where it read past it, the stop moves on.
#[tokio::test]
async fn barrier_moves_ahead_of_a_holder_that_read_past_it() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    let mut spec =
        RouteSpec { name: ROUTE.to_owned(), topics: vec!["*".parse().unwrap()], shards: 2 };
    bed.store.register(&spec).await.unwrap();
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
    spec.shards = 2;
    assert_eq!(bed.store.register(&spec).await.unwrap(), layout);
    bed.remove().await;
}

/// Neither looking for late rows nor reading on may read the whole log.
#[tokio::test]
async fn fetch_reads_by_index() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    bed.run(
        "INSERT INTO posthaste.outbox (topic, payload) \
             SELECT 't', convert_to(repeat('x', 200), 'UTF8') FROM generate_series(1, 20000)",
    )
    .await;
    bed.run("ANALYZE posthaste.outbox").await;
    let snapshot: String = sqlx::query_scalar("SELECT pg_current_snapshot()::text")
        .fetch_one(&bed.pool)
        .await
        .unwrap();
    for (sql, is_whole) in
        [(include_str!("../sql/fetch.sql"), true), (include_str!("../sql/fetch_some.sql"), false)]
    {
        let mut explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN {sql}")))
            .bind([10_000_i64].as_slice())
            .bind(vec![snapshot.clone()])
            .bind(10_000_i64)
            .bind(1000_i64)
            .bind(16_384)
            .bind(ROUTE);
        if !is_whole {
            explain = explain.bind(1).bind(0).bind(None::<i64>).bind(None::<String>);
        }
        let plan = explain.fetch_all(&bed.pool).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan on outbox"), "{plan}");
        assert_eq!(plan.matches("using outbox_xid").count(), 2, "{plan}");
    }
    bed.remove().await;
}
