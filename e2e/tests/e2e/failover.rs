//! The database fails over to a standby under a running relay. What the standby had not received is lost
//! with the old primary; what commits on the new one must arrive, though its seqs and transaction ids
//! have been handed out once before.

use posthaste_e2e::{
    Arrival, Arrivals, Running, Stage, address, assert_marked_order, behind, blocking,
    count_marked, enqueue_marked, eventually, execute,
};
use posthaste_fixtures::{Durability, PgBouncer, Postgres, Proxy};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::receiver::Receiver;

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

async fn ask(url: &str, sql: &'static str) -> Option<String> {
    let mut connection = PgConnection::connect(url).await.ok()?;
    let answer = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_optional(&mut connection).await;
    answer.ok().flatten()
}

impl Pair {
    async fn start(shards: u16) -> Self {
        // What `pg_rewind` needs; nobody else notices.
        let options = "-c wal_log_hints=on -c wal_keep_size=256MB";
        let primary = blocking(|| Postgres::private_with(Durability::Durable, options));
        let primary = primary.expect("a PostgreSQL");
        let mut stage = Stage::migrated(primary.url()).await;
        let on_primary = stage.url().to_owned();
        let standby = blocking(|| primary.standby()).expect("a standby");
        let on_standby = on_primary.replacen(address(primary.url()), address(standby.url()), 1);
        let proxy = Proxy::start(address(primary.url())).await.expect("a free port");
        stage.connect_to(&behind(&on_primary, &proxy));
        stage.configure(|config| format!("{config}shards = {shards}\n"));
        Self { primary, standby, proxy, stage, on_primary, on_standby }
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
        caught_up(&self.on_primary, &self.on_standby).await;
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

/// Waits until a standby has everything that its primary has now.
async fn caught_up(primary: &str, standby: &str) {
    let now = ask(primary, "SELECT pg_current_wal_lsn()::text").await.expect("it answers");
    eventually("standby that caught up", async || {
        let at = ask(standby, "SELECT pg_last_wal_replay_lsn()::text").await?;
        let lsn = |text: &str| {
            let (high, low) = text.split_once('/').expect("an LSN");
            let part = |hex| u64::from_str_radix(hex, 16).expect("hexadecimal");
            (part(high), part(low))
        };
        (lsn(&at) >= lsn(&now)).then_some(())
    })
    .await;
}

async fn fails_over(standby: Standby, relay_comes: Relay, shards: u16) {
    let mut pair = Pair::start(shards).await;
    if standby == Standby::IsSynchronous {
        pair.make_synchronous().await;
    }
    let relay = pair.stage.relay("one");
    let arrivals = run(&mut pair, &relay, standby, relay_comes).await;
    tells(&pair, &relay, standby).await;
    assert_marked_order(&arrivals, "after");
    assert_eq!(relay.stop().await, 0);
}

async fn run(
    pair: &mut Pair,
    relay: &Running,
    standby: Standby,
    relay_comes: Relay,
) -> Vec<Arrival> {
    let mut arrivals: Arrivals = pair.stage.arrivals();
    enqueue_marked(&pair.on_primary, "before", BEFORE).await;
    arrivals.wait("first messages", |all| count_marked(all, "before") == BEFORE).await;
    if standby == Standby::Lags {
        pair.cut_standby_off().await;
    }
    enqueue_marked(&pair.on_primary, "lost", LOST).await;
    arrivals.wait("messages of the old primary", |all| count_marked(all, "lost") == LOST).await;
    if relay_comes == Relay::Late {
        relay.signal("STOP");
    }
    pair.fail_over().await;
    enqueue_marked(&pair.on_standby, "after", AFTER).await;
    relay.signal("CONT");
    let done =
        arrivals.wait("messages of the new primary", |all| count_marked(all, "after") == AFTER);
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
    assert_marked_order(&arrivals, "after");
    assert_eq!(relay.stop().await, 0);
}

/// The old primary is rewound to follow the new one, and takes over again.
#[tokio::test(flavor = "multi_thread")]
async fn the_old_primary_is_rewound_and_promoted_again() {
    let mut pair = Pair::start(1).await;
    let relay = pair.stage.relay("one");
    run(&mut pair, &relay, Standby::Lags, Relay::AtOnce).await;
    // Its control file tells of the new timeline only from the first checkpoint on.
    execute(&pair.on_standby, "CHECKPOINT").await;
    blocking(|| pair.primary.rewind_to(&pair.standby)).expect("the old primary follows");
    caught_up(&pair.on_standby, &pair.on_primary).await;
    blocking(|| pair.standby.kill()).expect("the new primary runs");
    execute(&pair.on_primary, "SELECT pg_promote()").await;
    pair.proxy.retarget(address(pair.primary.url()));
    pair.proxy.reset();
    enqueue_marked(&pair.on_primary, "again", AFTER).await;
    let mut arrivals = pair.stage.arrivals();
    let all =
        arrivals.wait("messages of the rewound server", |all| count_marked(all, "again") == AFTER);
    let all = all.await;
    assert_marked_order(all, "again");
    assert_marked_order(all, "after");
    assert_eq!(relay.stop().await, 0);
}

/// A message that was parked before the standby was cut off is tried again on the new primary, ahead of
/// those of its key that wait behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_message_survives_the_promotion_of_a_standby() {
    let pair = Pair::start(1).await;
    let receiver = Receiver::start().await;
    let broker = format!(
        "url = \"{}\"\nallow_private = true\nsecrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]",
        receiver.url()
    );
    pair.stage.configure(|config| {
        let config = config.replace("url = \"stdout:\"", &broker);
        format!(
            "{config}\n[route.retry]\ninitial = \"100ms\"\nmax = \"100ms\"\nattempts = 100000\n"
        )
    });
    let relay = pair.stage.relay("one");
    let insert = |key: &str, body: &str| {
        format!(
            "INSERT INTO posthaste.outbox (topic, key, payload) VALUES ('orders', '{key}', '{body}')"
        )
    };
    execute(&pair.on_primary, &insert("a", "poison")).await;
    execute(&pair.on_primary, &insert("a", "behind it")).await;
    execute(&pair.on_primary, &insert("b", "other")).await;
    receiver.wait_for("other").await;
    let retrying = async |count: i64| {
        eventually("parked messages", async || {
            (pair.stage.status()["routes"][0]["retrying"] == count).then_some(())
        })
        .await;
    };
    retrying(2).await;
    pair.cut_standby_off().await;
    for n in 0..LOST {
        execute(&pair.on_primary, &insert("c", &format!("lost {n}"))).await;
    }
    receiver.wait_for(&format!("lost {}", LOST - 1)).await;
    pair.fail_over().await;
    execute(&pair.on_standby, &insert("a", "later")).await;
    execute(&pair.on_standby, &insert("c", "after")).await;
    receiver.wait_for("after").await;
    // All of the key still wait for the first.
    retrying(3).await;
    receiver.accept_all();
    receiver.wait_for("later").await;
    let taken = receiver.taken();
    let mut of_key: Vec<&str> = taken.iter().map(String::as_str).collect();
    of_key.retain(|body| ["poison", "behind it", "later"].contains(body));
    of_key.dedup();
    assert_eq!(of_key, ["poison", "behind it", "later"], "{taken:?}");
    retrying(0).await;
    assert_eq!(relay.stop().await, 0);
}
