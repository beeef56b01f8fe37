//! The database fails over to a standby under a running relay. What the standby had not received is lost
//! with the old primary; what commits on the new one must arrive, though its seqs and transaction ids
//! have been handed out once before.

use std::collections::BTreeMap;

use posthaste_e2e::{Arrival, Arrivals, Running, Stage, blocking, eventually, execute};
use posthaste_fixtures::{Durability, PgBouncer, Postgres, Proxy};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Messages before the standby is cut off, after it, and on the new primary.
const BEFORE: usize = 100;
const LOST: usize = 300;
const AFTER: usize = 300;

/// How far behind the standby is when it takes over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standby {
    /// It was cut off while messages were committed and sent.
    Lags,
    /// Commits wait for it.
    IsSynchronous,
}

/// When the relay comes to see the new primary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relay {
    /// Before anything is committed there.
    AtOnce,
    /// When everything has been committed there: its numbers are past those of the old primary.
    Late,
}

/// A primary, its standby, and the address that moves from one to the other.
struct Pair {
    primary: Postgres,
    standby: Postgres,
    proxy: Proxy,
    stage: Stage,
    /// The database, as it is reached on either server.
    on_primary: String,
    on_standby: String,
}

fn address(url: &str) -> &str {
    url.split(['@', '/']).nth(3).expect("the URL has an address")
}

async fn ask(url: &str, sql: &'static str) -> Option<String> {
    let mut connection = PgConnection::connect(url).await.ok()?;
    let answer = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_optional(&mut connection).await;
    answer.ok().flatten()
}

impl Pair {
    async fn start(shards: u16) -> Self {
        let primary = blocking(|| Postgres::private(Durability::Durable)).expect("a PostgreSQL");
        let mut stage = Stage::migrated(primary.url()).await;
        let on_primary = stage.url().to_owned();
        let standby = blocking(|| primary.standby()).expect("a standby");
        let on_standby = on_primary.replacen(address(primary.url()), address(standby.url()), 1);
        let proxy = Proxy::start(address(primary.url())).await.expect("a free port");
        let moving = proxy.address().to_string();
        stage.connect_to(&on_primary.replacen(address(primary.url()), &moving, 1));
        stage.configure(|config| format!("{config}shards = {shards}\n"));
        Self { primary, standby, proxy, stage, on_primary, on_standby }
    }

    /// Commits messages in transactions of ten, over ten keys.
    async fn enqueue(url: &str, word: &str, count: usize) {
        for first in (0..count).step_by(10) {
            let sql = format!(
                "INSERT INTO posthaste.outbox (topic, key, payload)
                 SELECT 'orders', 'key-' || n % 10, convert_to('{word} ' || n, 'UTF8')
                 FROM generate_series({first}, {first} + 9) AS n"
            );
            execute(url, &sql).await;
        }
    }

    async fn make_synchronous(&self) {
        execute(&self.on_primary, "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
        execute(&self.on_primary, "SELECT pg_reload_conf()").await;
        eventually("synchronous standby", async || {
            let state = "SELECT sync_state FROM pg_stat_replication";
            (ask(&self.on_primary, state).await.as_deref() == Some("sync")).then_some(())
        })
        .await;
    }

    /// The standby has everything so far, and gets nothing more.
    async fn cut_standby_off(&self) {
        let now = ask(&self.on_primary, "SELECT pg_current_wal_lsn()::text")
            .await
            .expect("the primary answers");
        eventually("standby that caught up", async || {
            let at = ask(&self.on_standby, "SELECT pg_last_wal_replay_lsn()::text").await?;
            let lsn = |text: &str| {
                let (high, low) = text.split_once('/').expect("an LSN");
                let part = |hex| u64::from_str_radix(hex, 16).expect("hexadecimal");
                (part(high), part(low))
            };
            (lsn(&at) >= lsn(&now)).then_some(())
        })
        .await;
        execute(&self.on_standby, "ALTER SYSTEM SET primary_conninfo = ''").await;
        execute(&self.on_standby, "SELECT pg_reload_conf()").await;
        eventually("standby without a connection", async || {
            let receivers = "SELECT count(*)::text FROM pg_stat_wal_receiver";
            (ask(&self.on_standby, receivers).await.as_deref() == Some("0")).then_some(())
        })
        .await;
    }

    /// The primary dies and the standby takes over, at the same address.
    async fn fail_over(&self) {
        blocking(|| self.primary.kill()).expect("the primary runs");
        execute(&self.on_standby, "ALTER SYSTEM RESET synchronous_standby_names").await;
        execute(&self.on_standby, "SELECT pg_promote()").await;
        self.proxy.retarget(address(self.standby.url()));
        self.proxy.reset();
    }
}

fn count(all: &[Arrival], word: &str) -> usize {
    let ids = all.iter().filter(|it| it.payload.as_ref().is_some_and(|it| it.starts_with(word)));
    ids.map(|arrival| arrival.id).collect::<std::collections::HashSet<_>>().len()
}

/// Per key, first deliveries of what was committed under this word are in the order of commits.
fn assert_ordered(all: &[Arrival], word: &str) {
    let mut seen = std::collections::HashSet::new();
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for arrival in all.iter().filter(|arrival| seen.insert(arrival.id)) {
        let payload = arrival.payload.as_deref().unwrap_or_default();
        let Some(number) = payload.strip_prefix(word) else { continue };
        let number: usize = number.trim().parse().expect("a number");
        let key = arrival.key.clone().expect("a key");
        let before = last.insert(key.clone(), number);
        assert!(before.is_none_or(|before| before < number), "{key}: {before:?} then {number}");
    }
}

async fn fails_over(standby: Standby, relay_comes: Relay, shards: u16) {
    let mut pair = Pair::start(shards).await;
    if standby == Standby::IsSynchronous {
        pair.make_synchronous().await;
    }
    let relay = pair.stage.relay("one");
    let arrivals = run(&mut pair, &relay, standby, relay_comes).await;
    tells(&pair, &relay, standby).await;
    assert_ordered(&arrivals, "after");
    assert_eq!(relay.stop().await, 0);
}

async fn run(
    pair: &mut Pair,
    relay: &Running,
    standby: Standby,
    relay_comes: Relay,
) -> Vec<Arrival> {
    let mut arrivals: Arrivals = pair.stage.arrivals();
    Pair::enqueue(&pair.on_primary, "before", BEFORE).await;
    arrivals.wait("first messages", |all| count(all, "before") == BEFORE).await;
    if standby == Standby::Lags {
        pair.cut_standby_off().await;
    }
    Pair::enqueue(&pair.on_primary, "lost", LOST).await;
    arrivals.wait("messages of the old primary", |all| count(all, "lost") == LOST).await;
    if relay_comes == Relay::Late {
        relay.signal("STOP");
    }
    pair.fail_over().await;
    Pair::enqueue(&pair.on_standby, "after", AFTER).await;
    relay.signal("CONT");
    let done = arrivals.wait("messages of the new primary", |all| count(all, "after") == AFTER);
    done.await.to_vec()
}

/// What people are told of it.
async fn tells(pair: &Pair, relay: &Running, standby: Standby) {
    relay.wait_log("the log went back in time").await;
    let status = eventually("status", async || {
        let status = pair.stage.status();
        (status["rewinds"].as_array().is_some_and(|it| !it.is_empty())).then_some(status)
    })
    .await;
    assert_eq!(status["rewinds"][0]["route"], "all", "{status}");
    assert_eq!(status["routes"][0]["dead"], 0, "{status}");
    if standby == Standby::IsSynchronous {
        let kept = "SELECT count(*)::text FROM posthaste.outbox";
        let rows = ask(&pair.on_standby, kept).await.expect("the standby answers");
        assert_eq!(rows, (BEFORE + LOST + AFTER).to_string(), "nothing was lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_standby_is_promoted_under_a_relay() {
    fails_over(Standby::Lags, Relay::AtOnce, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_standby_has_caught_up_in_numbers_when_the_relay_sees_it() {
    fails_over(Standby::Lags, Relay::Late, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronous_standby_is_promoted_under_a_relay() {
    fails_over(Standby::IsSynchronous, Relay::Late, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_promoted_behind_a_pooler() {
    let mut pair = Pair::start(1).await;
    let through = format!("postgres://postgres@{}/postgres", pair.proxy.address());
    let pooler = blocking(|| PgBouncer::start(&through, 4)).unwrap();
    let url = pooler.url(pair.stage.url());
    pair.stage.connect_to(&url);
    let relay = pair.stage.relay("one");
    let arrivals = run(&mut pair, &relay, Standby::Lags, Relay::Late).await;
    tells(&pair, &relay, Standby::Lags).await;
    assert_ordered(&arrivals, "after");
    assert_eq!(relay.stop().await, 0);
}
