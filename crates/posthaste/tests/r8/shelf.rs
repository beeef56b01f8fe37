//! A broker that is a folder, so that it outlives the program that is killed: what is to be received,
//! what was acknowledged, what was published and how often the handler ran, a line each.

use std::{
    collections::HashSet,
    fs::{OpenOptions, read_to_string},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use posthaste::{Broker, BrokerError, Incoming, Message, Provenance, Subscriber, TopicPattern};
use posthaste_core::{
    BrokerCapabilities, CallOrder, Delivery, Finding, Floor, MessageId, Outcome, Shard,
};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::{
    bed::Base,
    crash::{Hook, Point},
};

#[derive(Clone)]
pub(crate) struct Shelf {
    folder: PathBuf,
}

impl Shelf {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// One more line, by one write: it is there whole once the call returns, whoever is killed.
    pub(crate) fn add(&self, file: &str, line: &str) {
        let path = self.folder.join(file);
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
        file.write_all(format!("{line}\n").as_bytes()).expect("a line");
    }

    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What is on the shelf and not acknowledged.
    fn open(&self) -> Vec<(u64, String)> {
        let acknowledged: HashSet<String> = self.lines("acknowledged").into_iter().collect();
        let inputs = (1..).zip(self.lines("inputs"));
        inputs.filter(|(receipt, _)| !acknowledged.contains(&receipt.to_string())).collect()
    }
}

/// Receives from the shelf. Before it acknowledges it has the outputs dispatched, which is the order
/// in which the requirement names the points; relays do not wait for acknowledgements otherwise.
pub(crate) struct Reader<DB: Base> {
    pub(crate) shelf: Shelf,
    pub(crate) hook: Hook,
    pub(crate) pool: DB::Pool,
    pub(crate) given: HashSet<u64>,
    /// Rung when everything is acknowledged.
    pub(crate) is_empty: Arc<Notify>,
}

#[async_trait]
impl<DB: Base> Subscriber for Reader<DB> {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        let next = self.shelf.open().into_iter().find(|(receipt, _)| !self.given.contains(receipt));
        let Some((receipt, id)) = next else {
            return std::future::pending().await;
        };
        self.hook.reach(Point::BeforeLoad).await;
        self.given.insert(receipt);
        Ok(input(receipt, id.parse().expect("an id")))
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        if self.hook.point != Some(Point::AcknowledgedBeforeDispatch) {
            self.hook.reach(Point::BeforeDispatch).await;
            crate::crash::dispatch::<DB>(&self.shelf, self.hook, self.pool.clone()).await;
            self.hook.reach(Point::BeforeAcknowledge).await;
        }
        self.shelf.add("acknowledged", &receipt.to_string());
        self.hook.reach(Point::AcknowledgedBeforeDispatch).await;
        if self.shelf.open().is_empty() {
            self.is_empty.notify_one();
        }
        Ok(())
    }
}

/// The only message there is, as a relay's subscriber in an ordered lane gets it.
fn input(receipt: u64, id: MessageId) -> Incoming {
    let mut message = Message::new("inputs", "k", &1).expect("a message").event_type("Add");
    message.id = id;
    let floor = Floor { log: Uuid::nil(), shard: Shard::WHOLE, seq: 6, missing: Vec::new() };
    let provenance = Provenance {
        source: Some("/shop".to_owned()),
        seq: Some(7),
        floor: Some(floor),
        ..Provenance::default()
    };
    Incoming { message, provenance, receipt, lane: Some("lane".into()) }
}

/// Publishes to the shelf, with the state that others see at that time.
pub(crate) struct Writer<DB: Base> {
    pub(crate) shelf: Shelf,
    pub(crate) hook: Hook,
    pub(crate) pool: DB::Pool,
}

#[async_trait]
impl<DB: Base> Broker for Writer<DB> {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::Total, call_messages_max: 10 }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], _: Duration) -> Vec<Outcome> {
        for delivery in messages {
            let seen = DB::look(&self.pool, "SELECT CAST(n AS TEXT) FROM entity").await;
            let Message { id, topic, key, event_type, payload, headers, content_type } =
                &delivery.message;
            let payload = String::from_utf8_lossy(payload);
            let line = format!(
                "{id} {topic} {key:?} {event_type:?} {headers:?} {content_type} {payload} {seen:?}"
            );
            self.shelf.add("published", &line);
            self.hook.reach(Point::FirstOfTwo).await;
        }
        self.hook.reach(Point::BeforeSettle).await;
        vec![Outcome::Acked; messages.len()]
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}
