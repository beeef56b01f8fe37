//! Draining a backlog to the null broker with real leases, progress and settlements.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;
use async_trait::async_trait;
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Finding, Outcome, RouteSpec,
    TopicPattern,
};
use posthaste_relay::{Relay, Route, Settings};
use posthaste_store_postgres::PostgresStore;
use sqlx::{Connection, Executor, PgConnection};
use tokio_util::sync::CancellationToken;

use crate::{baseline, fill, process, report};

/// Acknowledges everything and remembers when.
#[derive(Default)]
pub(crate) struct CountingBroker {
    /// Messages acknowledged so far, and when.
    log: Mutex<Vec<(usize, Instant)>>,
}

impl CountingBroker {
    fn count(&self) -> usize {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .last()
            .map_or(0, |(count, _)| *count)
    }

    /// Rates of the first and the last tenth.
    fn tenths(&self, start: Instant) -> (f64, f64) {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let total = log.last().map_or(0, |(count, _)| *count);
        let at = |share: usize| {
            log.iter().find(|(count, _)| *count >= total * share / 10).map_or(start, |(_, at)| *at)
        };
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let tenth = total as f64 / 10.0;
        (tenth / (at(1) - start).as_secs_f64(), tenth / (at(10) - at(9)).as_secs_f64())
    }
}

#[async_trait]
impl Broker for CountingBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::Total, call_messages_max: usize::MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], _deadline: Duration) -> Vec<Outcome> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let before = log.last().map_or(0, |(count, _)| *count);
        log.push((before + messages.len(), Instant::now()));
        vec![Outcome::Acked; messages.len()]
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

/// Drains everything through a route that starts at the beginning.
pub(crate) async fn relay(url: &str, broker: Arc<CountingBroker>) -> Result<(f64, (f64, f64))> {
    let store = Arc::new(PostgresStore::connect(url).await?);
    let name = format!("drain-{}", fastrand::u64(..));
    let spec = RouteSpec { name, topics: vec!["*".parse()?], shards: 1 };
    let relay = Relay::new(store, vec![Route::new(spec, broker.clone())], Settings::default());
    let start = Instant::now();
    relay.run_once(CancellationToken::new()).await?;
    let count = i64::try_from(broker.count())?;
    Ok((baseline::rate(count, start), broker.tenths(start)))
}

/// Bare SELECT, relay and row-state relay on the same messages.
pub(crate) async fn drain(server: &str, messages: i64, rounds: usize) -> Result<()> {
    let (url, pool) = fill::database(server).await?;
    fill::outbox(&pool, messages).await?;
    let (mut selects, mut relays, mut states) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        selects.push(baseline::select(&pool, messages).await?);
        relays.push(relay(&url, Arc::default()).await?.0);
        baseline::fill_row_state(&pool, messages).await?;
        states.push(baseline::row_state(&pool, messages).await?);
    }
    let [select, relay, state] = [&selects, &relays, &states].map(|rates| report::median(rates));
    let row = |name: &str, rate: f64| {
        vec![
            name.to_owned(),
            report::thousands(rate),
            format!("{:.2}", rate / select),
            format!("{:.1}", rate / state),
        ]
    };
    report::table(
        &format!("Drain of {messages} messages of 256 B, median of {rounds} rounds"),
        &["what", "messages/s", "of SELECT", "of row-state"],
        &[
            row("SELECT in batches of 1,000", select),
            row("relay, null broker", relay),
            row("row-state relay, batch 500", state),
        ],
    );
    Ok(())
}

/// The same drain, free and while another session holds a snapshot from before.
pub(crate) async fn held(server: &str, messages: i64, rounds: usize) -> Result<()> {
    let (mut free, mut held, mut first, mut last) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (url, pool) = fill::database(server).await?;
    fill::outbox(&pool, messages).await?;
    for _ in 0..rounds {
        free.push(relay(&url, Arc::default()).await?.0);
        let mut holder = PgConnection::connect(&url).await?;
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        holder.execute("SELECT count(*) FROM posthaste.progress").await?;
        let (rate, (tenth, last_tenth)) = relay(&url, Arc::default()).await?;
        holder.execute("ROLLBACK").await?;
        held.push(rate);
        first.push(tenth);
        last.push(last_tenth);
    }
    let [free, held, first, last] =
        [&free, &held, &first, &last].map(|rates| report::median(rates));
    report::table(
        &format!("Drain of {messages} under a held snapshot, median of {rounds} rounds"),
        &["free", "held", "held / free", "held, first tenth", "held, last tenth"],
        &[vec![
            report::thousands(free),
            report::thousands(held),
            format!("{:.2}", held / free),
            report::thousands(first),
            report::thousands(last),
        ]],
    );
    Ok(())
}

/// Small and big tables, and the relay's peak memory on each, in a process of its own.
pub(crate) async fn size(server: &str, rounds: usize) -> Result<()> {
    let mut rows = Vec::new();
    let (small_url, small) = fill::database(server).await?;
    fill::outbox(&small, 100_000).await?;
    let (big_url, big) = fill::database(server).await?;
    fill::outbox(&big, 10_000_000).await?;
    let (mut small_rates, mut big_rates, mut peak) = (Vec::new(), Vec::new(), 0_u64);
    for _ in 0..rounds {
        for _ in 0..5 {
            let measured = process::drain_in_child(&small_url)?;
            small_rates.push(measured.rate);
            peak = peak.max(measured.peak_kib);
        }
        let measured = process::drain_in_child(&big_url)?;
        big_rates.push(measured.rate);
        peak = peak.max(measured.peak_kib);
    }
    let [small, big] = [&small_rates, &big_rates].map(|rates| report::median(rates));
    #[expect(clippy::cast_precision_loss, reason = "kibibytes")]
    let peak = peak as f64 / 1024.0;
    rows.push(vec![
        report::thousands(small),
        report::thousands(big),
        format!("{:.2}", big / small),
        format!("{peak:.1} MiB"),
    ]);
    report::table(
        "Rate by table size, relay in a process of its own",
        &["100 thousand rows", "10 million rows", "ratio", "peak memory of the relay"],
        &rows,
    );
    Ok(())
}
