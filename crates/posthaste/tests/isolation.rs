//! Rows of one route that somebody keeps locked stop that route, and no other.

use std::sync::Arc;

use posthaste::{Relay, Running, mysql::MySqlStore, postgres::PostgresStore};
use posthaste_broker_memory::{MemoryBroker, Script};
use posthaste_core::{Failure, Message, Outcome, Store};
use posthaste_fixtures::{Kind, eventually, fresh_database, postgres, server};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, MySqlPool, PgConnection, PgPool};
use uuid::Uuid;

/// Two routes, `a` and `b`, each with a broker of its own.
struct Shop {
    store: Arc<dyn Store>,
    brokers: [MemoryBroker; 2],
}

impl Shop {
    fn new(store: Arc<dyn Store>) -> Self {
        Self { store, brokers: [MemoryBroker::new(), MemoryBroker::new()] }
    }

    fn relay(&self) -> Relay {
        let [a, b] = self.brokers.clone();
        let relay = Relay::builder(self.store.clone());
        let relay = relay.route("a", "a", Arc::new(a)).route("b", "b", Arc::new(b));
        relay.build().expect("it works")
    }

    async fn enqueue(&self, topic: &str, count: usize) {
        let message = || Message::from_bytes(topic, None, topic.to_owned());
        let messages: Vec<Message> = (0..count).map(|_| message()).collect();
        self.store.append(&messages).await.expect("it works");
    }

    async fn arrived(&self, route: usize, count: usize) {
        let broker = &self.brokers[route];
        eventually("messages of the route", async || {
            (broker.received().len() >= count).then_some(())
        })
        .await;
    }

    /// Serves `b` and not `a` while its rows are locked, and then `a`.
    async fn serves_b_while(&self, relay: Running, unlock: impl AsyncFnOnce()) {
        let before = self.brokers.each_ref().map(|broker| broker.received().len());
        self.enqueue("a", 5).await;
        // One after another, for longer than a call waits for a lock.
        for count in 1..=20 {
            self.enqueue("b", 1).await;
            self.arrived(1, before[1] + count).await;
        }
        let health = eventually("route that shows why it is stuck", async || {
            let health = relay.handle().health();
            (health.routes[0].state.as_str() == "stuck").then_some(health)
        })
        .await;
        assert!(health.routes[0].reason.is_some(), "{health:?}");
        assert_eq!(health.routes[1].state.as_str(), "running", "{health:?}");
        assert_eq!(health.store_failure, None);
        self.enqueue("b", 1).await;
        self.arrived(1, before[1] + 21).await;
        unlock().await;
        self.arrived(0, before[0] + 5).await;
        eventually("everything is settled", async || {
            let status = self.store.status().await.expect("it works");
            let is_done =
                |route: &posthaste_core::RouteStatus| route.pending == 0 && route.retrying == 0;
            status.routes.iter().all(is_done).then_some(())
        })
        .await;
        relay.shutdown().await.expect("it works");
    }

    /// Makes the routes known and delivers something, so that every row is there.
    async fn warm_up(&self) {
        self.enqueue("a", 1).await;
        self.enqueue("b", 1).await;
        self.relay().run_once().await.expect("it works");
    }
}

async fn on_postgres() -> (Shop, PgConnection) {
    let url = fresh_database(postgres()).await.expect("it works");
    let pool = PgPool::connect(&url).await.expect("it works");
    posthaste::postgres::migrate(&pool).await.expect("it works");
    let store = PostgresStore::connect(&url).await.expect("it works");
    (Shop::new(Arc::new(store)), PgConnection::connect(&url).await.expect("it works"))
}

async fn on_mariadb() -> (Shop, MySqlConnection) {
    let server = server(Kind::MariaDb).url().trim_end_matches('/');
    let name = format!("ph_{}", Uuid::new_v4().simple());
    let mut connection = MySqlConnection::connect(server).await.expect("it works");
    // Not user input: the only variable part is a name made here.
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.expect("it works");
    let url = format!("{server}/{name}");
    let pool = MySqlPool::connect(&url).await.expect("it works");
    posthaste::mysql::migrate(&pool).await.expect("it works");
    let store = MySqlStore::connect(&url).await.expect("it works");
    (Shop::new(Arc::new(store)), MySqlConnection::connect(&url).await.expect("it works"))
}

/// A relay that starts while the rows are locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_lease_keeps_no_other_route_from_being_served_on_postgres() {
    let (shop, mut session) = on_postgres().await;
    shop.warm_up().await;
    let mut holding = session.begin().await.unwrap();
    holding.execute("SELECT FROM posthaste.lease WHERE route = 'a' FOR UPDATE").await.unwrap();
    let unlock = async || holding.commit().await.unwrap();
    shop.serves_b_while(shop.relay().spawn(), unlock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_lease_keeps_no_other_route_from_being_served_on_mariadb() {
    let (shop, mut session) = on_mariadb().await;
    shop.warm_up().await;
    let mut holding = session.begin().await.unwrap();
    let lock = "SELECT * FROM posthaste_lease WHERE route = 'a' FOR UPDATE";
    holding.execute(lock).await.unwrap();
    let unlock = async || holding.commit().await.unwrap();
    shop.serves_b_while(shop.relay().spawn(), unlock).await;
}

/// Also that of a route which is being registered.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_route_keeps_no_other_from_being_served_on_postgres() {
    let (shop, mut session) = on_postgres().await;
    shop.warm_up().await;
    let mut holding = session.begin().await.unwrap();
    holding.execute("SELECT FROM posthaste.route WHERE name = 'a' FOR UPDATE").await.unwrap();
    let unlock = async || holding.commit().await.unwrap();
    shop.serves_b_while(shop.relay().spawn(), unlock).await;
}

/// Lets the first attempt at every message of `a` fail, so that it is parked.
fn refuse_once(shop: &Shop) {
    let refused = std::sync::Mutex::new(std::collections::HashSet::new());
    shop.brokers[0].set_rule(move |delivery| {
        let is_new = refused.lock().expect("no look panics").insert(delivery.message.id);
        let outcome = || Outcome::Rejected(Failure::new("refused", "not yet"));
        if is_new { Script::Refuse(outcome()) } else { Script::Take }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_parked_message_keeps_no_other_route_from_being_served_on_postgres() {
    let (shop, mut session) = on_postgres().await;
    refuse_once(&shop);
    shop.enqueue("a", 1).await;
    shop.relay().run_once().await.unwrap();
    let mut holding = session.begin().await.unwrap();
    holding.execute("SELECT FROM posthaste.parked WHERE route = 'a' FOR UPDATE").await.unwrap();
    let unlock = async || holding.commit().await.unwrap();
    shop.serves_b_while(shop.relay().spawn(), unlock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_parked_message_keeps_no_other_route_from_being_served_on_mariadb() {
    let (shop, mut session) = on_mariadb().await;
    refuse_once(&shop);
    shop.enqueue("a", 1).await;
    shop.relay().run_once().await.unwrap();
    let mut holding = session.begin().await.unwrap();
    let lock = "SELECT * FROM posthaste_parked WHERE route = 'a' FOR UPDATE";
    holding.execute(lock).await.unwrap();
    let unlock = async || holding.commit().await.unwrap();
    shop.serves_b_while(shop.relay().spawn(), unlock).await;
}
