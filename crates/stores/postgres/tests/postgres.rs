//! What only PostgreSQL can have: two sessions meeting in a lock, snapshots, plans.

mod bed;

use std::{collections::HashSet, time::Duration};

use bed::{Bed, ROUTE, TTL, claim, explain, fetch_after, message, payloads, serve, settlement};
use posthaste_conformance::store::TestBed;
use posthaste_core::{
    Claim, Fetch, Message, MessageId, Next, Park, ParkedFilter, Position, Repark, Retention,
    RouteSpec, Settlement, Store, StoreErrorKind as Kind,
};
use posthaste_fixtures::{PATIENCE, eventually};
use posthaste_store_postgres::PostgresStore;
use posthaste_store_sql::{Reuse, Scope, Session, Statement, params};
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
    bed.run(
        "INSERT INTO posthaste.outbox (topic, payload) SELECT 't', '' FROM generate_series(1, 7)",
    )
    .await;
    let mut session = bed.connect().await;
    let mut settling = session.begin().await.unwrap();
    let position = Position::at(7, "3:3:");
    let entry = params![
        route: ROUTE,
        shard: 0_u16,
        relay: grant.lease.relay,
        epoch: grant.lease.epoch,
        position: &position,
        seq: position.seq(),
        lineage: None::<String>,
        reach: "0",
        entry_epoch: None::<i64>,
        entry_n: None::<i64>,
        witness_seq: None::<i64>,
        witness_id: None::<uuid::Uuid>,
    ];
    let dialect = bed.store.dialect();
    let mut other = Session { dialect, connection: &mut settling, reuse: Reuse::Unnamed };
    assert_eq!(other.execute(Statement::SettlePosition, &entry).await.unwrap(), 1);
    let store = bed.store.clone().deadline(PATIENCE);
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
    let store = bed.store.clone().deadline(PATIENCE);
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
    bed.run(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_sleep(5); RETURN NEW; END $$; \
         CREATE TRIGGER slow BEFORE INSERT ON posthaste.outbox EXECUTE FUNCTION slow()",
    )
    .await;
    let late = store.append(&[message("late")]).await.unwrap_err();
    assert_eq!(late.kind, Kind::Unavailable);
    assert_eq!(store.pool().size(), 0, "it may still be answered, so nobody may use it again");
    bed.run("DROP TRIGGER slow ON posthaste.outbox").await;
    serve(&bed).await;
    bed.remove().await;
}

/// Long before its deadline, so that locked rows cost little of the pool.
#[tokio::test]
async fn call_gives_up_a_row_that_stays_locked_and_keeps_its_connection() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    let mut session = bed.connect().await;
    let mut locking = session.begin().await.unwrap();
    locking.execute("SELECT FROM posthaste.lease FOR UPDATE").await.unwrap();
    let store = bed.store.clone().deadline(Duration::from_secs(20));
    let refused = store.renew(&grant.lease, TTL).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Unavailable, "{refused:?}");
    assert!(refused.to_string().contains("lock"), "{refused}");
    assert!(store.pool().size() > 0, "the connection is fine");
    locking.rollback().await.unwrap();
    store.renew(&grant.lease, TTL).await.unwrap();
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

/// What a fetch from a position looked at: the pages of the shipped statements, as `EXPLAIN` counts
/// them, in every way that the planner may have of the table.
async fn pages(bed: &Bed, after: &Position) -> Vec<i64> {
    let mut pages = Vec::new();
    let step = after.steps().last().expect("a position");
    let snapshots = [step.snapshot.to_string()];
    let params = params![
        seqs: vec![step.seq],
        snapshots: &snapshots[..],
        after: step.seq,
        limit: 100_i64,
        small: 16_384_i64,
        route: ROUTE,
        of: 1_u16,
        index: 0_u16,
        until_seq: None::<i64>,
        until_snapshot: None::<String>,
        witness: None::<i64>,
    ];
    for statement in ["fetch", "fetch_some"] {
        let plan = explain(bed, "(ANALYZE, BUFFERS, FORMAT JSON)", statement, &params).await;
        let plan: serde_json::Value = serde_json::from_str(&plan.concat()).expect("JSON");
        assert!(!plan.to_string().contains("Seq Scan on outbox"), "{plan:#}");
        let count = |name: &str| plan[0]["Plan"][name].as_i64().expect("a count");
        pages.push(count("Shared Hit Blocks") + count("Shared Read Blocks"));
    }
    pages
}

/// A backlog of `rows` messages, each of a transaction of its own, as far as the table can tell.
async fn backlog(bed: &Bed, rows: i64) {
    let base: i64 = sqlx::query_scalar("SELECT pg_current_xact_id()::text::bigint + 100")
        .fetch_one(&bed.pool)
        .await
        .expect("a valid statement");
    let insert = "INSERT INTO posthaste.outbox (xid, topic, payload) \
                  SELECT ($1 + row)::text::xid8, 't', 'x' FROM generate_series(1, $2) AS row";
    sqlx::query(insert).bind(base).bind(rows).execute(&bed.pool).await.expect("a valid statement");
}

/// After an outage, the first fetch reads the rows that it returns, however many wait behind them:
/// what is late lies below the position, and is not looked for above.
#[tokio::test]
async fn a_fetch_reads_no_more_pages_when_more_waits() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    let mut early = bed.begin().await;
    early.enqueue(&[message("late")]).await.unwrap();
    bed.store.append(&[message("1")]).await.unwrap();
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    let position = Position::at(batch.end, batch.snapshot);
    backlog(&bed, 2_000).await;
    for analyzed in [false, true] {
        if analyzed {
            bed.run("ANALYZE posthaste.outbox").await;
        }
        let few = pages(&bed, &position).await;
        backlog(&bed, 60_000).await;
        let many = pages(&bed, &position).await;
        for (few, many) in few.iter().zip(&many) {
            // Reading the backlog would take more than 600; a deeper index takes a few.
            assert!(*many <= few + 100, "{few} pages with a small backlog, {many} with a big one");
        }
    }
    early.commit().await;
    let batch = bed.store.fetch(&fetch_after(position)).await.unwrap();
    assert_eq!(payloads(&batch)[..1], [b"late"]);
    bed.remove().await;
}

/// A transaction that writes most of the log after a fetch has passed its first row is late with that
/// row alone; looking for it reads neither the rest of the transaction nor the log.
#[tokio::test]
async fn a_late_row_is_found_without_the_rest_of_its_transaction() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    let mut bulk = bed.connect().await;
    let mut bulk = bulk.begin().await.unwrap();
    let insert = "INSERT INTO posthaste.outbox (topic, payload) SELECT 't', 'late' \
                  FROM generate_series(1, $1)";
    sqlx::query(insert).bind(1).execute(&mut *bulk).await.unwrap();
    bed.store.append(&[message("1")]).await.unwrap();
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&batch), [b"1"]);
    let position = Position::at(batch.end, batch.snapshot);
    sqlx::query(insert).bind(60_000).execute(&mut *bulk).await.unwrap();
    bulk.commit().await.unwrap();
    for analyzed in [false, true] {
        if analyzed {
            bed.run("ANALYZE posthaste.outbox").await;
        }
        for pages in pages(&bed, &position).await {
            assert!(pages < 100, "{pages} pages for 100 rows");
        }
    }
    let request = Fetch { rows_max: 3, ..fetch_after(position) };
    let batch = bed.store.fetch(&request).await.unwrap();
    let seqs: Vec<_> = batch.messages.iter().map(|fetched| fetched.seq).collect();
    assert_eq!(seqs, [1, 3, 4]);
    bed.remove().await;
}

/// The ids of savepoints are handed out, too, and a snapshot does not tell them from those of open
/// transactions. Where there are many, the snapshot is taken again, so that it lists few.
#[tokio::test]
async fn savepoints_do_not_make_positions_long() {
    let bed = Bed::alone().await;
    serve(&bed).await;
    let mut writer = bed.connect().await;
    let mut writer = writer.begin().await.unwrap();
    writer
        .execute(
            "INSERT INTO posthaste.outbox (topic, payload) VALUES ('t', 'late');
             CREATE TEMP TABLE taken (n int) ON COMMIT DROP;
             DO $$
             BEGIN
                 FOR n IN 1..3000 LOOP
                     BEGIN
                         INSERT INTO taken VALUES (n);
                     EXCEPTION WHEN OTHERS THEN
                         RAISE;
                     END;
                 END LOOP;
             END $$",
        )
        .await
        .unwrap();
    let first = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert!(first.messages.is_empty());
    assert!(first.snapshot.len() < 1_000, "{} bytes", first.snapshot.len());
    bed.store.append(&[message("1")]).await.unwrap();
    let first = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    let position = Position::at(first.end, first.snapshot);
    backlog(&bed, 2_000).await;
    for pages in pages(&bed, &position).await {
        assert!(pages < 100, "{pages} pages for 100 rows");
    }
    writer.commit().await.unwrap();
    let second = bed.store.fetch(&fetch_after(position)).await.unwrap();
    assert_eq!(payloads(&second)[..1], [b"late"]);
    bed.remove().await;
}

/// Positions from before snapshots listed every open transaction are read as ever.
#[tokio::test]
async fn a_plain_snapshot_finds_late_rows_above_its_xmax() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    let mut early = bed.begin().await;
    early.touch().await;
    let mut late = bed.begin().await;
    late.enqueue(&[message("1")]).await.unwrap();
    early.enqueue(&[message("2")]).await.unwrap();
    early.commit().await;
    let plain: String = sqlx::query_scalar("SELECT pg_current_snapshot()::text")
        .fetch_one(&bed.pool)
        .await
        .unwrap();
    late.commit().await;
    backlog(&bed, 100).await;
    let batch = bed.store.fetch(&fetch_after(Position::at(2, plain))).await.unwrap();
    let seqs: Vec<_> = batch.messages.iter().take(2).map(|fetched| fetched.seq).collect();
    assert_eq!(seqs, [1, 3]);
    bed.remove().await;
}

/// A barrier is set by a transaction that has an id of its own, which is below that of the open
/// writer: the barrier's snapshot lists the writer all the same.
#[tokio::test]
async fn a_barrier_lists_a_writer_that_began_after_its_own_transaction() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    let mut early = bed.begin().await;
    early.touch().await;
    // Makes the registration wait with an id of its own, while the writers draw theirs.
    let mut holder = bed.connect().await;
    let mut holder = holder.begin().await.unwrap();
    holder.execute("DELETE FROM posthaste.lease").await.unwrap();
    let spec = RouteSpec { name: ROUTE.to_owned(), topics: vec!["*".parse().unwrap()], shards: 2 };
    let store = bed.store.clone();
    let register = tokio::spawn(async move { store.register(&spec).await });
    until_blocked(&mut bed.connect().await).await;
    let mut late = bed.begin().await;
    late.enqueue(&[message("1")]).await.unwrap();
    early.enqueue(&[message("2")]).await.unwrap();
    early.commit().await;
    holder.rollback().await.unwrap();
    register.await.unwrap().unwrap();
    bed.store.release(&grant.lease).await.unwrap();
    let grant = bed.store.acquire(&claim()).await.unwrap().expect("it was released");
    let barrier = grant.until.expect("a resize is under way");
    late.commit().await;
    backlog(&bed, 100).await;
    let batch = bed.store.fetch(&fetch_after(barrier)).await.unwrap();
    let seqs: Vec<_> = batch.messages.iter().take(2).map(|fetched| fetched.seq).collect();
    assert_eq!(seqs, [1, 3]);
    bed.remove().await;
}

/// A journal that nobody thinned for long is thinned in pieces: of what retention has let go stays one
/// entry, of what it will go by one for each minute.
#[tokio::test]
async fn a_long_journal_is_thinned_in_pieces() {
    let bed = Bed::fresh().await;
    serve(&bed).await;
    bed.run(
        "INSERT INTO posthaste.progress (route, shard, epoch, position, seq, at) \
         SELECT 'all', 0, 1, '', 0, clock_timestamp() - interval '2 days' + n * interval '1 ms' \
         FROM generate_series(1, 30000) AS n; \
         INSERT INTO posthaste.progress (route, shard, epoch, position, seq, at) \
         SELECT 'all', 0, 1, '', 0, \
             date_trunc('minute', clock_timestamp()) - interval '12 hours' + n * interval '10 ms' \
         FROM generate_series(0, 29999) AS n",
    )
    .await;
    let day = Duration::from_secs(86_400);
    let retention = Retention { delivered: day, discarded: day };
    let mut rounds = Vec::new();
    for _ in 0..3 {
        rounds.push(bed.store.purge(retention, 100).await.unwrap().progress);
    }
    assert!(rounds.iter().all(|removed| *removed <= 50_000), "{rounds:?}");
    assert_eq!(rounds.iter().sum::<u64>(), 60_000 - 6, "{rounds:?}");
    let left: Vec<i64> = sqlx::query_scalar("SELECT n FROM posthaste.progress ORDER BY n")
        .fetch_all(&bed.pool)
        .await
        .unwrap();
    assert_eq!(left, [30_000, 36_000, 42_000, 48_000, 54_000, 60_000]);
    bed.remove().await;
}

/// However many dead letters there are, each call acts on a bounded number of them; and however many
/// keys are blocked, each call reads a bounded number of rows.
#[tokio::test]
async fn thousands_of_parked_messages_are_acted_on_in_pieces() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    bed.run(
        "INSERT INTO posthaste.parked \
             (route, seq, bucket, id, topic, key, payload, content_type, created_at, state) \
         SELECT 'all', n, 0, gen_random_uuid(), 't', 'k' || n % 21000, '', 'c', now(), 'dead' \
         FROM generate_series(1, 45000) AS n",
    )
    .await;
    let filter = ParkedFilter::default();
    assert_eq!(bed.store.redrive(&filter, "me").await.unwrap(), 45_000);
    let planned = "SELECT count(*) FROM posthaste.parked WHERE next_attempt_at IS NOT NULL";
    let planned: i64 = sqlx::query_scalar(planned).fetch_one(&bed.pool).await.unwrap();
    assert_eq!(planned, 21_000, "the first of each key");
    bed.store.release(&grant.lease).await.unwrap();
    let grant = bed.store.acquire(&claim()).await.unwrap().expect("it was released");
    let keys: HashSet<&String> = grant.blocked.iter().collect();
    assert_eq!((grant.blocked.len(), keys.len()), (21_000, 21_000));
    bed.run("UPDATE posthaste.parked SET state = 'dead', next_attempt_at = NULL").await;
    assert_eq!(bed.store.discard(&filter, "me", "test").await.unwrap(), 45_000);
    assert_eq!(bed.store.discard(&filter, "me", "test").await.unwrap(), 0);
    bed.remove().await;
}

const AT_ONCE: Retention = Retention { delivered: Duration::ZERO, discarded: Duration::ZERO };

fn route(name: &str, topic: &str) -> RouteSpec {
    let topics = vec![topic.parse().expect("a valid pattern")];
    RouteSpec { name: name.to_owned(), topics, shards: 1 }
}

/// A hundred messages that wait for a route, and one behind them that a route has passed.
async fn with_waiting_messages() -> Bed {
    let bed = Bed::fresh().await;
    let waiting = Message::from_bytes("waiting", None, "w");
    let waiting: Vec<Message> =
        (0..100).map(|_| Message { id: MessageId::fresh(), ..waiting.clone() }).collect();
    bed.store.append(&waiting).await.expect("the store answers");
    bed.store.append(&[message("passed")]).await.expect("the store answers");
    bed.store.register(&route(ROUTE, "orders")).await.expect("the store answers");
    let grant = bed.store.acquire(&claim()).await.expect("a claim").expect("a free lease");
    let batch =
        bed.store.fetch(&fetch_after(Position::default())).await.expect("the store answers");
    let position = grant.position.passed(batch.end, &batch.snapshot);
    bed.store.settle(&grant.lease, &settlement(position)).await.expect("the store answers");
    bed.advance(Duration::from_secs(1)).await;
    bed
}

async fn waiting_count(bed: &Bed) -> i64 {
    let count = "SELECT count(*) FROM posthaste.outbox WHERE topic = 'waiting'";
    sqlx::query_scalar(count).fetch_one(&bed.pool).await.expect("the store answers")
}

/// A purge that a lock on the table keeps from deleting decides again once it gets the lock.
#[tokio::test]
async fn route_registered_while_a_purge_is_held_up_finds_what_waited() {
    let bed = with_waiting_messages().await;
    let mut session = bed.connect().await;
    let mut holding = session.begin().await.unwrap();
    holding.execute("LOCK TABLE posthaste.outbox IN EXCLUSIVE MODE").await.unwrap();
    let store = bed.store.clone();
    let purging = tokio::spawn(async move { store.purge(AT_ONCE, 1000).await });
    eventually("purge that waits, or has given up", async || {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                     AND application_name = 'posthaste' AND wait_event_type = 'Lock'";
        let waits: i64 = sqlx::query_scalar(waits).fetch_one(&bed.pool).await.unwrap();
        (waits > 0 || purging.is_finished()).then_some(())
    })
    .await;
    bed.store.register(&route("late", "waiting")).await.unwrap();
    holding.commit().await.unwrap();
    match purging.await.unwrap() {
        Ok(purged) => assert_eq!(purged.messages, 0),
        Err(error) => assert_eq!(error.kind, Kind::Unavailable, "{error:?}"),
    }
    bed.store.purge(AT_ONCE, 1000).await.unwrap();
    assert_eq!(waiting_count(&bed).await, 100);
    let late = Claim { route: "late".to_owned(), ..claim() };
    let grant = bed.store.acquire(&late).await.unwrap().expect("a free lease");
    let fetch = Fetch { route: "late".to_owned(), ..fetch_after(grant.position) };
    assert_eq!(bed.store.fetch(&fetch).await.unwrap().messages.len(), 100);
    bed.remove().await;
}

/// Neither stands in line behind the other: the purge gives up, and its turn comes again.
#[tokio::test]
async fn purge_gives_way_to_a_registration_under_way() {
    let bed = with_waiting_messages().await;
    let mut session = bed.connect().await;
    let mut registering = session.begin().await.unwrap();
    let insert = "INSERT INTO posthaste.route (name, topics, likes, shards) \
                  VALUES ('late', '{waiting}', '{waiting}', 1)";
    registering.execute(insert).await.unwrap();
    let refused = bed.store.purge(AT_ONCE, 1000).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Unavailable, "{refused:?}");
    let lease = "INSERT INTO posthaste.lease (route, shard) VALUES ('late', 0)";
    registering.execute(lease).await.unwrap();
    registering.commit().await.unwrap();
    assert_eq!(bed.store.purge(AT_ONCE, 1000).await.unwrap().messages, 0);
    assert_eq!(waiting_count(&bed).await, 100);
    bed.remove().await;
}

/// A position that lies behind what the journal says of earlier times, as adopting a dump makes it.
#[tokio::test]
async fn purge_goes_by_the_latest_position_where_it_went_back() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    bed.store.append(&["1", "2"].map(message)).await.unwrap();
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    let position = grant.position.passed(batch.end, &batch.snapshot);
    bed.store.settle(&grant.lease, &settlement(position)).await.unwrap();
    bed.advance(Duration::from_secs(3600)).await;
    let back = Position::at(1, &*batch.snapshot);
    bed.store.settle(&grant.lease, &settlement(back)).await.unwrap();
    let minute = Retention { delivered: Duration::from_secs(60), ..AT_ONCE };
    assert_eq!(bed.store.purge(minute, 1000).await.unwrap().messages, 1);
    let left = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    assert_eq!(payloads(&left), [b"2"]);
    bed.remove().await;
}

/// What the guide says to do: nothing of the route is left but its parked messages.
#[tokio::test]
async fn messages_of_a_route_that_was_removed_are_told_until_they_are_given_up() {
    let bed = Bed::fresh().await;
    let grant = serve(&bed).await;
    let park = |seq, next| Park {
        message: message("parked"),
        age: Duration::ZERO,
        report: Repark { seq, attempts: 1, unknowns: 0, failure: None, next },
    };
    let parks = vec![park(1, Next::Retry(TTL)), park(2, Next::Retry(TTL)), park(3, Next::Dead)];
    let settlement = Settlement { park: parks, ..Settlement::default() };
    bed.store.settle(&grant.lease, &settlement).await.unwrap();
    for (table, column) in [("lease", "route"), ("progress", "route"), ("route", "name")] {
        let delete = format!("DELETE FROM posthaste.{table} WHERE {column} = '{ROUTE}'");
        sqlx::query(AssertSqlSafe(delete)).execute(&bed.pool).await.unwrap();
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

/// No count of what is parked reads more than it tells, whatever else is parked.
#[tokio::test]
async fn status_reads_parked_messages_by_index() {
    let bed = Bed::fresh().await;
    bed.run(
        "INSERT INTO posthaste.parked (route, seq, bucket, id, topic, payload, content_type, \
             created_at, state) \
             SELECT 'r0', n, 0, gen_random_uuid(), 't', repeat('x', 200)::bytea, 'c', now(), \
                 CASE WHEN n % 3 = 0 THEN 'dead' ELSE 'retrying' END \
             FROM generate_series(1, 200000) AS n",
    )
    .await;
    bed.run("ANALYZE posthaste.parked").await;
    for (statement, indexes) in [
        ("status_parked", &["parked_retrying", "parked_dead"][..]),
        ("status_owners", &["parked_pkey"]),
    ] {
        let plan = explain(&bed, "", statement, &params![route: "r0", after: "r0"]).await;
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan") && !plan.contains("Bitmap"), "{plan}");
        assert!(indexes.iter().all(|index| plan.contains(index)), "{plan}");
    }
    bed.remove().await;
}

/// Statements compare topics by LIKE, where other characters than a pattern's star mean something.
#[tokio::test]
async fn patterns_become_likes_with_everything_else_escaped() {
    let bed = Bed::fresh().await;
    let patterns = ["*", "orders.*", "a_%", r"a\*", "\"q\", 'é'"];
    let topics = patterns.map(|pattern| pattern.parse().unwrap()).to_vec();
    let spec = RouteSpec { name: ROUTE.to_owned(), topics, shards: 1 };
    let turned = RouteSpec { topics: spec.topics.iter().rev().cloned().collect(), ..spec.clone() };
    let likes = ["%", "orders.%", r"a\_\%", r"a\\%", "\"q\", 'é'"];
    for (spec, is_turned) in [(&spec, false), (&turned, true)] {
        bed.store.register(spec).await.unwrap();
        let row = sqlx::query("SELECT topics, likes FROM posthaste.route");
        let row = row.fetch_one(&bed.pool).await.unwrap();
        for (column, mut expected) in [patterns, likes].into_iter().enumerate() {
            if is_turned {
                expected.reverse();
            }
            assert_eq!(row.get::<Vec<String>, _>(column), expected);
        }
    }
    bed.remove().await;
}

/// A message that had no route is parked for one that takes it now, before a message of its key that is
/// retrying: that one waits.
#[tokio::test]
async fn messages_that_waited_come_before_later_ones_of_their_key() {
    let bed = Bed::fresh().await;
    let keyed = |topic: &str| Message::from_bytes(topic, Some("k"), topic.to_owned());
    bed.store.append(&[keyed("waiting"), keyed("orders")]).await.unwrap();
    bed.store.register(&route(ROUTE, "orders")).await.unwrap();
    let grant = bed.store.acquire(&claim()).await.unwrap().expect("a free lease");
    let batch = bed.store.fetch(&fetch_after(Position::default())).await.unwrap();
    let park = Park {
        message: batch.messages[0].message.clone(),
        age: Duration::ZERO,
        report: Repark {
            seq: batch.messages[0].seq,
            attempts: 1,
            unknowns: 0,
            failure: None,
            next: Next::Retry(Duration::ZERO),
        },
    };
    let position = Position::default().passed(batch.end, &batch.snapshot);
    let parked = Settlement { park: vec![park], ..settlement(position) };
    bed.store.settle(&grant.lease, &parked).await.unwrap();
    bed.store.register(&route(ROUTE, "*")).await.unwrap();
    let planned = "SELECT array_agg(seq) FROM posthaste.parked WHERE next_attempt_at IS NOT NULL";
    let planned: Vec<i64> = sqlx::query_scalar(planned).fetch_one(&bed.pool).await.unwrap();
    assert_eq!(planned, [1]);
    let grant = bed.store.acquire(&claim()).await.unwrap().expect("leases have ended");
    let due = bed.store.due(&grant.lease, 10, usize::MAX).await.unwrap();
    assert_eq!(due.messages.iter().map(|parked| parked.seq).collect::<Vec<_>>(), [1, 2]);
    bed.remove().await;
}

/// Messages are looked up by their seqs even where the server knows nothing about a table that has just
/// grown, and would rather read all that is parked for the route.
#[tokio::test]
async fn parked_messages_are_looked_up_one_by_one_in_a_table_that_has_just_grown() {
    let bed = Bed::fresh().await;
    bed.run(
        "INSERT INTO posthaste.parked (route, seq, bucket, id, topic, key, payload, content_type, \
             created_at, state) \
             SELECT 'all', n, 0, gen_random_uuid(), 't', 'k' || n, repeat('x', 200)::bytea, 'c', \
                 now(), CASE WHEN n % 3 = 0 THEN 'dead' ELSE 'retrying' END \
             FROM generate_series(1, 100000) AS n",
    )
    .await;
    let seqs: Vec<i64> = (1..=100).collect();
    let keys: Vec<String> = seqs.iter().map(|seq| format!("k{seq}")).collect();
    let params = params![
        route: ROUTE,
        seqs: seqs.as_slice(),
        keys: keys.as_slice(),
        by: "ada",
        why: "test",
    ];
    for statement in [
        "due_messages",
        "settle_keys",
        "hold_followers",
        "promote_heads",
        "redrive",
        "discard",
        "purge_discarded",
    ] {
        let plan = explain(&bed, "(ANALYZE, BUFFERS, FORMAT JSON)", statement, &params).await;
        let plan: serde_json::Value = serde_json::from_str(&plan.concat()).expect("JSON");
        let count = |name: &str| plan[0]["Plan"][name].as_i64().expect("a count");
        let pages = count("Shared Hit Blocks") + count("Shared Read Blocks");
        // All of the route are 4,000 pages.
        assert!(pages < 3_000, "{statement}: {pages} pages\n{plan:#}");
    }
    bed.remove().await;
}

/// The driver does not know of the transaction, so it would not roll it back.
#[tokio::test]
async fn call_that_panics_closes_its_connection() {
    let bed = Bed::fresh().await;
    let pool = PgPoolOptions::new().connect_lazy(&bed.url).unwrap();
    let store = PostgresStore::new(pool);
    let call = store.call::<(), ()>("test", Scope::Transaction, (), |_, _| {
        Box::pin(async { panic!("as it should") })
    });
    assert_eq!(call.await.unwrap_err().kind, Kind::Internal);
    assert_eq!(store.pool().size(), 0, "its transaction is still open");
    bed.remove().await;
}
