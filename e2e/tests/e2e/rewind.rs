//! The log goes back in time under a running relay, other than by a standby that takes over: data are
//! restored, recovered to a point in time, replaced, or a lagging replica is promoted. What was committed
//! after that moment is gone with its database; what commits afterwards must arrive, though its
//! numbers have been handed out once before.

use std::fs;

use posthaste_e2e::{
    Stage, address, assert_marked_order, behind, blocking, count_marked, enqueue_marked,
    eventually, execute, mysql,
};
use posthaste_fixtures::{Back, Durability, Kind, Options, Postgres, Proxy, Server};
use sqlx::{Connection, MySqlConnection, Row};

/// Messages before the state that the log goes back to, after it, and after the log has gone back.
const BEFORE: usize = 100;
const LOST: usize = 300;
const AFTER: usize = 300;

/// When the relay comes to see the earlier state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relay {
    /// Before anything is committed on it.
    AtOnce,
    /// When its numbers are past those that the relay remembers.
    Late,
}

/// A database, and what happens to it.
trait Database {
    /// Where the application writes.
    fn url(&self) -> String;
    /// Keeps the present state.
    async fn save(&mut self);
    /// Puts the kept state in place.
    async fn go_back(&mut self);
}

/// Commits, goes back, commits again, and asserts that nothing committed afterwards is skipped, that it
/// comes in order, and that people are told.
async fn goes_back(stage: &Stage, database: &mut impl Database, relay_comes: Relay) {
    let relay = stage.relay("one");
    let mut arrivals = stage.arrivals();
    enqueue_marked(&database.url(), "before", BEFORE).await;
    arrivals.wait("first messages", |all| count_marked(all, "before") == BEFORE).await;
    database.save().await;
    enqueue_marked(&database.url(), "lost", LOST).await;
    arrivals.wait("messages that get lost", |all| count_marked(all, "lost") == LOST).await;
    if relay_comes == Relay::Late {
        relay.signal("STOP");
    }
    database.go_back().await;
    enqueue_marked(&database.url(), "after", AFTER).await;
    relay.signal("CONT");
    let all = arrivals.wait("later messages", |all| count_marked(all, "after") == AFTER).await;
    assert_marked_order(all, "after");
    relay.wait_log("the log went back in time").await;
    let status = eventually("status", async || {
        let status = stage.status();
        (status["rewinds"].as_array().is_some_and(|it| !it.is_empty())).then_some(status)
    })
    .await;
    assert_eq!(status["rewinds"][0]["route"], "all", "{status}");
    assert_eq!(
        (&status["routes"][0]["dead"], &status["routes"][0]["retrying"]),
        (&0.into(), &0.into())
    );
    let doctor = stage.run(&["doctor"]);
    assert!(doctor.out.contains("went back in time"), "{doctor:#?}");
    assert_eq!(relay.stop().await, 0);
}

/// A PostgreSQL whose data are replaced by an earlier state.
struct Restored {
    server: Postgres,
    url: String,
    /// The restore point to recover to; `None` for the bare copy.
    point: Option<&'static str>,
}

impl Database for Restored {
    fn url(&self) -> String {
        self.url.clone()
    }

    async fn save(&mut self) {
        blocking(|| self.server.save()).expect("the server stops and starts");
        if let Some(point) = self.point {
            let sql = format!("SELECT pg_create_restore_point('{point}')");
            execute(&self.url, &sql).await;
        }
    }

    async fn go_back(&mut self) {
        let back = self.point.map_or(Back::ToSaved, Back::ToPoint);
        blocking(|| self.server.go_back(back)).expect("the server starts with the earlier state");
        // A server that recovers takes readers before writers.
        eventually("server that takes writes", async || {
            let mut connection = sqlx::PgConnection::connect(&self.url).await.ok()?;
            let is_standby = sqlx::query_scalar("SELECT pg_is_in_recovery()");
            let is_standby: bool = is_standby.fetch_one(&mut connection).await.ok()?;
            (!is_standby).then_some(())
        })
        .await;
    }
}

async fn restores(point: Option<&'static str>, relay_comes: Relay) {
    let server = blocking(|| Postgres::private(Durability::Durable)).expect("a PostgreSQL");
    let stage = Stage::migrated(server.url()).await;
    let url = stage.url().to_owned();
    goes_back(&stage, &mut Restored { server, url, point }, relay_comes).await;
}

/// The server itself does not know: same identifier, same timeline.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_data_is_restored_under_a_relay() {
    restores(None, Relay::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_copy_has_caught_up_in_numbers_when_the_relay_sees_it() {
    restores(None, Relay::Late).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_recovered_to_a_point_in_time_under_a_relay() {
    restores(Some("noon"), Relay::Late).await;
}

/// A MariaDB, its replica, and the address that moves from one to the other.
struct Replicated {
    primary: Server,
    replica: Server,
    proxy: Proxy,
    is_promoted: bool,
}

impl Replicated {
    async fn start() -> Self {
        let server = |id: &str| {
            let settings = [("server_id", id), ("log_bin", "binlog"), ("binlog_format", "ROW")];
            let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
            let options = Options { settings, ..Options::default() };
            blocking(|| Server::private(Kind::MariaDb, &options)).expect("a MariaDB")
        };
        let (primary, replica) = (server("1"), server("2"));
        let port = address(primary.url()).rsplit(':').next().expect("a port");
        let follow = format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'root',
             MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4; START SLAVE"
        );
        mysql(replica.url(), &follow).await.expect("the replica follows");
        mysql(primary.url(), "CREATE DATABASE shop").await.expect("the primary takes writes");
        let proxy = Proxy::start(address(primary.url())).await.expect("a free port");
        Self { primary, replica, proxy, is_promoted: false }
    }

    async fn rows_of_replica(&self) -> Option<i64> {
        let mut connection =
            MySqlConnection::connect(&format!("{}shop", self.replica.url())).await.ok()?;
        // The journal of progress is the last thing that the relay writes.
        let sql = "SELECT COALESCE(MAX(seq), 0) FROM posthaste_progress";
        let row = sqlx::query(sql).fetch_one(&mut connection).await.ok()?;
        row.try_get(0).ok()
    }
}

impl Database for Replicated {
    fn url(&self) -> String {
        let server = if self.is_promoted { &self.replica } else { &self.primary };
        format!("{}shop", server.url())
    }

    async fn save(&mut self) {
        let all = i64::try_from(BEFORE).expect("a small number");
        eventually("replica that caught up", async || {
            (self.rows_of_replica().await? >= all).then_some(())
        })
        .await;
        mysql(self.replica.url(), "STOP SLAVE").await.expect("the replica stops following");
    }

    async fn go_back(&mut self) {
        blocking(|| self.primary.kill()).expect("the primary runs");
        mysql(self.replica.url(), "RESET SLAVE ALL").await.expect("the replica is promoted");
        self.proxy.retarget(address(self.replica.url()));
        self.proxy.reset();
        self.is_promoted = true;
    }
}

async fn promotes_a_replica(relay_comes: Relay) {
    let mut pair = Replicated::start().await;
    let stage = Stage::on(&behind(&pair.url(), &pair.proxy));
    stage.run(&["migrate"]).ok();
    goes_back(&stage, &mut pair, relay_comes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_replica_of_mariadb_is_promoted_under_a_relay() {
    promotes_a_replica(Relay::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_of_mariadb_has_caught_up_in_numbers_when_the_relay_sees_it() {
    promotes_a_replica(Relay::Late).await;
}

/// A file of SQLite, and a copy of it.
struct Replaced {
    folder: tempfile::TempDir,
}

impl Database for Replaced {
    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("shop.db").display())
    }

    async fn save(&mut self) {
        let copy = self.folder.path().join("copy.db");
        execute(&self.url(), &format!("VACUUM INTO '{}'", copy.display())).await;
    }

    async fn go_back(&mut self) {
        for name in ["shop.db-wal", "shop.db-shm"] {
            // Not there where nobody has the file open.
            let _ = fs::remove_file(self.folder.path().join(name));
        }
        let path = |name: &str| self.folder.path().join(name);
        fs::rename(path("copy.db"), path("shop.db")).expect("the copy is there");
    }
}

async fn replaces_the_file(relay_comes: Relay) {
    let mut file = Replaced { folder: tempfile::tempdir().expect("a temporary folder") };
    let stage = Stage::on(&file.url());
    stage.run(&["migrate"]).ok();
    goes_back(&stage, &mut file, relay_comes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_sqlite_is_replaced_under_a_relay() {
    replaces_the_file(Relay::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_file_has_caught_up_in_numbers_when_the_relay_sees_it() {
    replaces_the_file(Relay::Late).await;
}
