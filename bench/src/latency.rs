//! From commit to broker at 200 messages a second, by polling.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;
use async_trait::async_trait;
use posthaste::{Message, postgres::Outbox};
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Finding, MessageId, Outcome,
    RouteSpec, TopicPattern,
};
use posthaste_relay::{Relay, Route, Settings};
use posthaste_store_postgres::PostgresStore;
use tokio_util::sync::CancellationToken;

use crate::{fill, report};

/// Messages a second.
const RATE: u64 = 200;

/// Acknowledges everything and remembers when each message came.
#[derive(Default)]
struct TimingBroker {
    arrived: Mutex<HashMap<MessageId, Instant>>,
}

#[async_trait]
impl Broker for TimingBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::Total, call_messages_max: usize::MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], _deadline: Duration) -> Vec<Outcome> {
        let now = Instant::now();
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.extend(messages.iter().map(|delivery| (delivery.message.id, now)));
        vec![Outcome::Acked; messages.len()]
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

/// Writes at a steady rate and compares commit and arrival.
pub(crate) async fn run(server: &str, seconds: u64) -> Result<()> {
    let (url, pool) = fill::database(server).await?;
    let broker = Arc::new(TimingBroker::default());
    let store = Arc::new(PostgresStore::connect(&url).await?);
    let spec = RouteSpec { name: "latency".to_owned(), topics: vec!["*".parse()?], shards: 1 };
    let relay = Relay::new(store, vec![Route::new(spec, broker.clone())], Settings::default());
    let stop = CancellationToken::new();
    let running = tokio::spawn(relay.run(stop.clone()));
    let mut ticks = tokio::time::interval(Duration::from_millis(1000 / RATE));
    let mut committed = Vec::new();
    for number in 0..RATE * seconds {
        ticks.tick().await;
        let mut tx = pool.begin().await?;
        let id = Outbox::new().enqueue(&mut tx, Message::new("t", number, "x")?).await?;
        tx.commit().await?;
        committed.push((id, Instant::now()));
    }
    let everything =
        || broker.arrived.lock().unwrap_or_else(PoisonError::into_inner).len() == committed.len();
    while !everything() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    running.await??;
    let arrived = broker.arrived.lock().unwrap_or_else(PoisonError::into_inner);
    let mut latencies: Vec<f64> = committed
        .iter()
        .map(|(id, at)| arrived[id].saturating_duration_since(*at).as_secs_f64() * 1000.0)
        .collect();
    latencies.sort_by(f64::total_cmp);
    let at = |share| format!("{:.1} ms", report::quantile(&latencies, share));
    report::table(
        &format!("Commit to broker at {RATE} messages/s, polling, {seconds} s"),
        &["p50", "p90", "p99", "max"],
        &[vec![at(0.5), at(0.9), at(0.99), at(1.0)]],
    );
    Ok(())
}
