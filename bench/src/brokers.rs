//! From a filled outbox to each real broker, against a plain loop: the same client library, the
//! same acknowledgements, the same number of messages in flight, the same headers, nothing else.

mod kafka;
mod mqtt;
mod nats;
mod rabbitmq;
mod redis;

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use posthaste_core::{Broker, Delivery, Floor, Message, RouteSpec, Shard};
use posthaste_fixtures::{Kind, Options, Server};
use posthaste_relay::{Relay, Route, Settings};
use posthaste_store_postgres::PostgresStore;
use posthaste_wire::{Names, Style, Wire};
use sqlx::{Executor, PgPool};
use tokio_util::sync::CancellationToken;

use crate::{baseline, fill, report};

/// Messages in flight, of the loop and of the relay.
const WINDOW: usize = 1024;
const PAYLOAD_BYTES: usize = 256;
const TOPIC: &str = "orders";

/// The headers of messages in their wire form, for loops that send the same.
struct Headers(Vec<(String, Value)>);

/// What a header says.
enum Value {
    Same(String),
    Id,
    Key,
    Sequence,
    Time,
}

impl Headers {
    fn new(style: Style) -> Self {
        let message = Message::from_bytes(TOPIC, Some("customer-1"), vec![0xab; PAYLOAD_BYTES]);
        let (log, shard) = (uuid::Uuid::now_v7(), Shard { index: 0, of: 1 });
        let floor = Some(Arc::new(Floor { log, shard, seq: 0, missing: Vec::new() }));
        let delivery =
            Delivery { seq: 1, message, enqueued_at: UNIX_EPOCH, attempt: 1, redriven: 0, floor };
        let names = Names { style, reserved: &[], reserved_prefixes: &[] };
        let wire = Wire::default();
        let outgoing = wire.encode(&delivery, &names).expect("a plain message has a wire form");
        let headers = outgoing.headers.into_iter().map(|(name, value)| {
            let value = match name.rsplit(['-', '_', ':']).next() {
                Some("id") => Value::Id,
                Some("subject" | "partitionkey") => Value::Key,
                Some("sequence") => Value::Sequence,
                Some("time") => Value::Time,
                _ => Value::Same(value.into_owned()),
            };
            (name.into_owned(), value)
        });
        Self(headers.collect())
    }

    /// Those of a message: what tells it from others is its own.
    fn of<'a>(&'a self, n: usize, id: &'a str) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        self.0.iter().map(move |(name, value)| {
            let value = match value {
                Value::Same(value) => value.into(),
                Value::Id => id.into(),
                Value::Key => format!("customer-{}", n % 10_000).into(),
                Value::Sequence => format!("{n:020}").into(),
                Value::Time => {
                    let at = UNIX_EPOCH + Duration::from_micros(n as u64);
                    humantime::format_rfc3339_micros(at).to_string().into()
                }
            };
            (&**name, value)
        })
    }
}

/// A broker to measure.
#[async_trait]
trait Subject: Send + Sync {
    /// What is measured, for the table.
    fn name(&self) -> &'static str;

    /// The adapter, as a route would use it; for a hot key as one would set it for that.
    fn broker(&self, is_hot: bool) -> Result<Arc<dyn Broker>>;

    /// Sends so many messages with the client library alone.
    async fn plain(&self, messages: usize) -> Result<()>;

    /// Empties it.
    async fn clear(&self) -> Result<()>;
}

/// Every broker, or the one named.
pub(crate) async fn run(
    server: &str,
    messages: i64,
    rounds: usize,
    only: Option<&str>,
) -> Result<()> {
    let kinds = kinds(only)?;
    let (spread_url, spread) = fill::database(server).await?;
    outbox(&spread, messages, "'customer-' || n % 10000").await?;
    let (hot_url, hot) = fill::database(server).await?;
    outbox(&hot, messages, "'hot'").await?;
    let mut rows = Vec::new();
    for kind in kinds {
        let server = tokio::task::spawn_blocking(move || Server::private(kind, &options(kind)))
            .await?
            .with_context(|| format!("no {} to measure on", kind.name()))?;
        for subject in subjects(kind, &server).await? {
            let row = measure(&*subject, messages, rounds, &spread_url, &hot_url).await?;
            eprintln!("{}", row.join(", "));
            rows.push(row);
        }
    }
    report::table(
        &format!(
            "{messages} messages of {PAYLOAD_BYTES} B, {WINDOW} in flight, median of {rounds}"
        ),
        &["broker", "plain loop", "relay", "ratio", "one hot key", "ratio"],
        &rows,
    );
    Ok(())
}

/// As for tests, but for what is not as the broker comes.
fn options(kind: Kind) -> Options {
    // For tests it writes all it has every second, however much that is by then.
    let saves = ("autosave_interval".to_owned(), "1800".to_owned());
    let settings = if kind == Kind::Mosquitto { vec![saves] } else { Vec::new() };
    Options { settings, ..Options::default() }
}

fn kinds(only: Option<&str>) -> Result<Vec<Kind>> {
    let all = [Kind::RabbitMq, Kind::Kafka, Kind::Nats, Kind::Redis, Kind::Mosquitto];
    let Some(only) = only else { return Ok(all.to_vec()) };
    let Some(kind) = all.iter().find(|kind| kind.name().eq_ignore_ascii_case(only)) else {
        let names = all.map(Kind::name).join(", ");
        bail!("--only {only}: no such broker; there are {names}");
    };
    Ok(vec![*kind])
}

async fn subjects(kind: Kind, server: &Server) -> Result<Vec<Box<dyn Subject>>> {
    Ok(match kind {
        Kind::RabbitMq => vec![
            Box::new(rabbitmq::Queue::new(server.url(), false).await?),
            Box::new(rabbitmq::Queue::new(server.url(), true).await?),
        ],
        Kind::Kafka => vec![Box::new(kafka::Topic::new(server.url()).await?)],
        Kind::Nats => vec![Box::new(nats::Stream::new(server.url()).await?)],
        Kind::Redis => vec![Box::new(redis::Stream::new(server.url()).await?)],
        _ => vec![Box::new(mqtt::Session::new(server.url()).await?)],
    })
}

async fn measure(
    subject: &dyn Subject,
    messages: i64,
    rounds: usize,
    spread: &str,
    hot: &str,
) -> Result<Vec<String>> {
    let (mut plains, mut relays, mut hots) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        subject.clear().await?;
        let start = Instant::now();
        subject.plain(usize::try_from(messages)?).await?;
        plains.push(baseline::rate(messages, start));
        subject.clear().await?;
        relays.push(relay(spread, messages, subject.broker(false)?).await?);
        subject.clear().await?;
        hots.push(relay(hot, messages, subject.broker(true)?).await?);
    }
    let [plain, relay, hot] = [&plains, &relays, &hots].map(|rates| report::median(rates));
    let rate = |rate: f64| format!("{:.1} k/s", rate / 1000.0);
    Ok(vec![
        subject.name().to_owned(),
        rate(plain),
        rate(relay),
        format!("{:.2}", relay / plain),
        rate(hot),
        format!("{:.2}", hot / plain),
    ])
}

/// Drains the outbox through a route that starts at the beginning.
async fn relay(url: &str, messages: i64, broker: Arc<dyn Broker>) -> Result<f64> {
    let store = Arc::new(PostgresStore::connect(url).await?);
    let name = format!("drain-{}", fastrand::u64(..));
    let spec = RouteSpec { name, topics: vec![TOPIC.parse()?], shards: 1 };
    let route = Route { in_flight_max: WINDOW, ..Route::new(spec, broker) };
    let relay = Relay::new(store, vec![route], Settings::default());
    let start = Instant::now();
    relay.run_once(CancellationToken::new()).await?;
    Ok(baseline::rate(messages, start))
}

async fn outbox(pool: &PgPool, messages: i64, key: &'static str) -> Result<()> {
    let statement = format!(
        "INSERT INTO posthaste.outbox (topic, key, payload_binary)
         SELECT '{TOPIC}', {key}, decode(repeat('ab', {PAYLOAD_BYTES}), 'hex')
         FROM generate_series(1, {messages}) n"
    );
    pool.execute(sqlx::AssertSqlSafe(statement)).await?;
    pool.execute("VACUUM ANALYZE posthaste.outbox").await?;
    pool.execute("CHECKPOINT").await?;
    Ok(())
}
