//! Hostile writers: long transactions, roll-backs, bulk INSERT ... SELECT, interleaved ids, row locks
//! of the database itself as what serialises a key; several relays that read at once, and are killed.
//! The shared history checker decides.

mod bed;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bed::{Bed, fetch_after};
use posthaste_core::{Fetch, Message, MessageId, Position, RouteSpec, Store, StoreErrorKind};
use posthaste_fixtures::{Kind, Options, PATIENCE, Server};
use posthaste_history::History;
use posthaste_store_mysql::{MySqlStore, enqueue};
use sqlx::{MySqlConnection, MySqlPool};

const WRITERS: u64 = 8;
const TRANSACTIONS: usize = 60;
const KEYS: u64 = 6;

/// What writers and readers share.
#[derive(Default)]
struct World {
    history: Mutex<History>,
    writing: AtomicUsize,
}

impl World {
    fn record(&self, write: impl FnOnce(&mut History)) {
        write(&mut self.history.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

async fn prepare(bed: &Bed) {
    bed.run(
        "CREATE TABLE aggregate (name VARCHAR(20) PRIMARY KEY, version INT NOT NULL); \
         INSERT INTO aggregate VALUES ('key-0', 0), ('key-1', 0), ('key-2', 0), ('key-3', 0), \
             ('key-4', 0), ('key-5', 0)",
    )
    .await;
}

/// Runs transactions of all kinds.
async fn write(pool: MySqlPool, world: Arc<World>, index: u64) {
    let mut random = fastrand::Rng::with_seed(index);
    for _ in 0..TRANSACTIONS {
        transact(&pool, &world, &mut random, index).await;
    }
    world.writing.fetch_sub(1, Ordering::SeqCst);
}

async fn transact(pool: &MySqlPool, world: &World, random: &mut fastrand::Rng, index: u64) {
    let is_slow = index == 0 && random.u8(..10) == 0;
    let mut transaction = pool.begin().await.expect("a transaction can begin");
    if random.bool() {
        // Fixes what a REPEATABLE READ transaction sees, long before it enqueues.
        sqlx::query("SELECT COUNT(*) FROM aggregate")
            .execute(&mut *transaction)
            .await
            .expect("a statement that works");
        dawdle(random, is_slow).await;
    }
    // The row lock that serialises the key's writers, held until the end.
    let key = if is_slow { "slow".to_owned() } else { format!("key-{}", random.u64(..KEYS)) };
    sqlx::query("UPDATE aggregate SET version = version + 1 WHERE name = ?")
        .bind(&key)
        .execute(&mut *transaction)
        .await
        .expect("a statement that works");
    let mut sent = Vec::new();
    for _ in 0..random.usize(1..4) {
        let count = random.usize(1..5);
        let messages: Vec<Message> =
            (0..count).map(|_| Message::from_bytes("orders", Some(&key), "")).collect();
        if random.bool() {
            enqueue(&mut transaction, &messages).await.expect("a statement that works");
        } else {
            bulk(&mut transaction, &messages).await;
        }
        sent.extend(messages);
        dawdle(random, is_slow).await;
    }
    if random.u8(..10) == 0 {
        transaction.rollback().await.expect("a statement that works");
        world.record(|history| history.rolled_back(&sent));
    } else {
        // Recorded before: once it has committed another writer of the key may be faster.
        world.record(|history| history.committed(&sent));
        transaction.commit().await.expect("a statement that works");
    }
}

/// INSERT ... SELECT, of which the server does not know beforehand how many rows it brings.
async fn bulk(connection: &mut MySqlConnection, messages: &[Message]) {
    let ids: Vec<String> = messages.iter().map(|message| message.id.to_string()).collect();
    sqlx::query(
        "INSERT INTO posthaste_outbox (id, topic, `key`, payload) \
         SELECT message.id, 'orders', ?, '' \
         FROM JSON_TABLE(?, '$[*]' COLUMNS (n FOR ORDINALITY, id CHAR(36) PATH '$')) AS message \
         ORDER BY message.n",
    )
    .bind(messages[0].key.as_deref())
    .bind(serde_json::Value::from(ids).to_string())
    .execute(connection)
    .await
    .expect("a statement that works");
}

async fn dawdle(random: &mut fastrand::Rng, is_slow: bool) {
    let millis = if is_slow { 200 } else { random.u64(..6) };
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Reads a route to its end; calls that fail are made again, as a relay does.
async fn read(store: MySqlStore, world: Arc<World>, route: String) -> Vec<MessageId> {
    let mut random = fastrand::Rng::with_seed(9);
    let mut request = Fetch { route, ..fetch_after(Position::default()) };
    let mut ids = Vec::new();
    loop {
        request.rows_max = random.u32(1..60);
        let all_ended = world.writing.load(Ordering::SeqCst) == 0;
        let batch = match store.fetch(&request).await {
            Ok(batch) => batch,
            Err(error) => {
                assert!(
                    matches!(error.kind, StoreErrorKind::Unavailable | StoreErrorKind::Internal),
                    "{error:?}"
                );
                continue;
            }
        };
        request.after = request.after.passed(batch.end, &batch.snapshot);
        ids.extend(batch.messages.iter().map(|fetched| fetched.message.id));
        if all_ended && !batch.more {
            return ids;
        }
        if batch.messages.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Writers and three relays, each with a route and connections of its own, as three processes have.
async fn run(bed: &Bed, disturb: impl Future<Output = ()>) {
    prepare(bed).await;
    let world = Arc::new(World::default());
    world.writing.store(usize::try_from(WRITERS).expect("few"), Ordering::SeqCst);
    let mut readers = Vec::new();
    for number in 0..3 {
        let name = format!("route-{number}");
        let topics = vec!["*".parse().expect("a valid pattern")];
        let spec = RouteSpec { name: name.clone(), topics, shards: 1 };
        bed.store.register(&spec).await.expect("a route");
        // Connections of their own: who kills a reader must not meet a writer who got its connection.
        let store = MySqlStore::connect(&bed.url).await.expect("a server to connect to");
        readers.push(tokio::spawn(read(store, Arc::clone(&world), name)));
    }
    let writers: Vec<_> = (0..WRITERS)
        .map(|index| tokio::spawn(write(bed.pool.clone(), Arc::clone(&world), index)))
        .collect();
    let ended = async {
        for writer in writers {
            writer.await.expect("no panic");
        }
        let mut orders = Vec::new();
        for reader in readers {
            orders.push(reader.await.expect("no panic"));
        }
        orders
    };
    let orders = tokio::select! {
        orders = tokio::time::timeout(5 * PATIENCE, ended) => orders.expect("it ends"),
        () = disturb => unreachable!("it goes on until the end"),
    };
    assert!(orders.iter().all(|order| *order == orders[0]), "every route reads the same order");
    world.record(|history| orders[0].iter().for_each(|id| history.received(*id)));
    let report = world.history.lock().expect("no panic").check();
    assert!(report.committed > 500, "{report}");
    assert!(report.is_exact(), "{report}");
    assert_eq!(bed.number("SELECT COUNT(*) FROM posthaste_outbox").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_writers_lose_repeat_and_invert_nothing() {
    use posthaste_conformance::store::TestBed;
    let bed = Bed::fresh().await;
    run(&bed, std::future::pending()).await;
    bed.remove().await;
}

/// Ids of one statement are not in one piece then, nor those of two statements apart.
#[tokio::test(flavor = "multi_thread")]
async fn interleaved_ids_change_nothing() {
    let settings =
        [("innodb_autoinc_lock_mode", "2"), ("log_bin", "binlog"), ("binlog_format", "ROW")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = Options { settings: settings.to_vec(), ..Options::default() };
    let server = Server::private(Kind::MariaDb, &options).expect("a MariaDB");
    let bed = Bed::fresh_on(server.url()).await;
    run(&bed, std::future::pending()).await;
}

/// Connections that read and move die at any moment; a step is done or it is not.
#[tokio::test(flavor = "multi_thread")]
async fn relays_that_are_killed_lose_and_repeat_nothing() {
    use posthaste_conformance::store::TestBed;
    let bed = Bed::fresh().await;
    let pool = bed.pool.clone();
    let kill = async move {
        let mut killer = pool.acquire().await.unwrap();
        loop {
            tokio::time::sleep(Duration::from_millis(25)).await;
            let at_work = "SELECT CAST(ID AS SIGNED) FROM information_schema.PROCESSLIST \
                           WHERE DB = DATABASE() AND INFO LIKE '%posthaste_log%' \
                               AND ID <> CONNECTION_ID()";
            let ids: Vec<i64> = sqlx::query_scalar(at_work).fetch_all(&mut *killer).await.unwrap();
            for id in ids {
                // It may have ended by itself.
                let _ = sqlx::query("KILL ?").bind(id).execute(&mut *killer).await;
            }
        }
    };
    run(&bed, kill).await;
    bed.remove().await;
}
