//! The consumer of `TransactionCreated`: every transfer is settled once, however often its event
//! comes.
//!
//! The inbox's record that the event was handled, the transfer's last status and both balances are
//! one commit, and what has come meanwhile shares the next one: the more there is to do, the less
//! each costs. Before it, in a transaction of its own, the transfer becomes `PROCESSING`, so that
//! everybody can see that somebody is at it; a consumer that dies in between leaves it so, and the
//! event comes again. Where a database has one writer (SQLite) the handler is it, and nobody sees
//! anything in between.
//!
//! Events come from RabbitMQ ([`rabbitmq`]), or straight from a relay in this process
//! ([`embedded`]).

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use posthaste::{
    Backoff, BrokerError, Consumer, HandlerError, Inbox, Incoming, IntoStore, Relay, Sharing,
    Start, StoreError, StoreErrorKind, Subscriber, Subscription, rabbitmq, tcp,
};
use services_web::{BESIDE_DRAIN_TIMEOUT, Environment};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    application::{LedgerError, Transfers},
    domain::{Overdraft, TransactionCreated},
    infra::{Database, Settles},
};

/// What the inbox, and an embedded relay's route, call this consumer.
const NAME: &str = "settlement";

/// Most transfers settled by one commit. One commit at a time: a busy user's balance is part of
/// every one.
const BATCH: usize = 100;

/// Pauses between two tries to reach RabbitMQ at the start.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Time between two looks whether the database answers.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Pauses after a failure that is neither the database's nor the message's, and how many there may
/// be.
const RETRY: (Backoff, u32) =
    (Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) }, 10);

/// Reads `RABBIT_URL` and `RABBIT_EXCHANGE`. A password in a URL is not quoted.
pub fn rabbit(environment: &mut Environment) -> rabbitmq::Config {
    let mut config =
        rabbitmq::Config::new(environment.text("RABBIT_URL", "amqp://guest:guest@localhost:5672/"));
    config.exchange = environment.text("RABBIT_EXCHANGE", "transaction.events");
    if let Err(invalid) = rabbitmq::RabbitMqBroker::open(config.clone()) {
        let name = if invalid.field == "url" { "RABBIT_URL" } else { "RABBIT_EXCHANGE" };
        environment.refuse(name, &invalid.value, &invalid.rule);
    }
    config
}

/// Reads `OVERDRAFT`: how far below zero a sender may go before transfers fail.
pub fn overdraft(environment: &mut Environment) -> Overdraft {
    let rule = "unlimited, or a number of minor units";
    environment.parse_with("OVERDRAFT", Overdraft::Unlimited, rule, |text| match text {
        "unlimited" => Some(Overdraft::Unlimited),
        number => number.parse().ok().map(Overdraft::AtMost),
    })
}

/// Settles what RabbitMQ brings until stopped; then what is being settled is finished. RabbitMQ is
/// waited for, at the start and whenever it is away; `is_subscribed` tells when it was first there.
///
/// # Errors
/// When the inbox cannot be used as it is.
pub async fn from_rabbitmq(
    database: &Database,
    config: &rabbitmq::Config,
    overdraft: Overdraft,
    is_subscribed: &AtomicBool,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let settling = |stop| -> Settling<'_> {
        Box::pin(settle_from_rabbitmq(database, config, overdraft, is_subscribed, stop))
    };
    again_after_outages(database, stop, settling).await
}

async fn settle_from_rabbitmq(
    database: &Database,
    config: &rabbitmq::Config,
    overdraft: Overdraft,
    is_subscribed: &AtomicBool,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // One queue for each exchange, whoever subscribes first: instances share it.
    let subscription = subscription(Some(format!("{}.{NAME}", config.exchange)));
    let subscribe = async {
        let mut pause = PAUSE_MIN;
        loop {
            match rabbitmq::subscribe(config, &subscription).await {
                Ok(subscriber) => return subscriber,
                Err(error) => warn_of(&error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    };
    let Some(subscriber) = stop.run_until_cancelled(subscribe).await else { return Ok(()) };
    is_subscribed.store(true, Ordering::Relaxed);
    tracing::info!(exchange = config.exchange, "settling");
    run(database, Box::new(subscriber), overdraft, stop).await
}

/// Settles what a relay in this process brings from the outbox, without any broker, until stopped.
///
/// # Errors
/// When no port of this machine is free, or the inbox or the outbox cannot be used as they are.
pub async fn embedded(
    database: &Database,
    overdraft: Overdraft,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let settling = |stop| -> Settling<'_> { Box::pin(settle_embedded(database, overdraft, stop)) };
    again_after_outages(database, stop, settling).await
}

/// Settling, until its token says stop.
type Settling<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + 'a>>;

/// Settles until stopped, and stops and begins anew when the database does not answer: a connection
/// that is lost without a word says nothing to whoever waits for its answer. Events that were in
/// work come again.
async fn again_after_outages<'a>(
    database: &Database,
    stop: CancellationToken,
    settling: impl Fn(CancellationToken) -> Settling<'a>,
) -> anyhow::Result<()> {
    let transfers = Transfers::new(database.ledger());
    loop {
        let round = stop.child_token();
        let watch = async {
            until_lost(&transfers).await;
            tracing::warn!("the database does not answer; settling starts again when it does");
            round.cancel();
            pending().await
        };
        tokio::select! {
            result = settling(round.clone()) => result?,
            never = watch => return never,
        }
        if stop.is_cancelled() || !round.is_cancelled() {
            return Ok(());
        }
        stop.run_until_cancelled(until_found(&transfers)).await;
    }
}

async fn until_lost(transfers: &Transfers) {
    while transfers.check().await.is_ok() {
        sleep(LOOK_EVERY).await;
    }
}

async fn until_found(transfers: &Transfers) {
    while transfers.check().await.is_err() {
        sleep(LOOK_EVERY).await;
    }
}

async fn settle_embedded(
    database: &Database,
    overdraft: Overdraft,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // The relay hears of a message's end when it is settled: nothing is lost in between, as it
    // would be in a queue in memory.
    let listening = tcp::Config::new("tcp://127.0.0.1:0");
    let subscriber = tcp::subscribe(&listening, &subscription(None)).await?;
    let broker = tcp::TcpBroker::open(tcp::Config::new(format!("tcp://{}", subscriber.address())))?;
    let store = match database {
        Database::Postgres(pool) => pool.clone().into_store(),
        Database::Sqlite(pool) => pool.clone().into_store(),
    };
    let relay = Relay::builder(store)
        .route(NAME, TransactionCreated::TOPIC, Arc::new(broker))
        .build()?
        .spawn();
    tracing::info!("settling in this process");
    run(database, Box::new(subscriber), overdraft, stop).await?;
    relay.shutdown().await?;
    Ok(())
}

fn subscription(name: Option<String>) -> Subscription {
    let topic = TransactionCreated::TOPIC.parse().expect("a topic is a pattern");
    Subscription { name, topics: vec![topic], start: Start::Beginning, sharing: Sharing::Competing }
}

fn warn_of(error: &BrokerError) {
    tracing::warn!(reason = %error, "waiting for RabbitMQ");
}

async fn run(
    database: &Database,
    subscriber: Box<dyn Subscriber>,
    overdraft: Overdraft,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let transfers = Arc::new(Transfers::new(database.ledger()));
    match database {
        Database::Postgres(pool) => {
            consumer::<sqlx::Postgres>(pool.clone(), subscriber, transfers, overdraft)?
                .run(stop)
                .await?;
        }
        Database::Sqlite(pool) => {
            consumer::<sqlx::Sqlite>(pool.clone(), subscriber, transfers, overdraft)?
                .run(stop)
                .await?;
        }
    }
    Ok(())
}

fn consumer<DB: Settles + 'static>(
    pool: DB::Pool,
    subscriber: Box<dyn Subscriber>,
    transfers: Arc<Transfers>,
    overdraft: Overdraft,
) -> anyhow::Result<Consumer<DB>> {
    let consumer = Consumer::builder(pool, Inbox::new(NAME), subscriber)
        .concurrency(1)
        .batch(BATCH)
        .retry(RETRY.0, RETRY.1)
        .drain(BESIDE_DRAIN_TIMEOUT / 2)
        .on_all(TransactionCreated::TYPE, move |connection, incoming| {
            let transfers = Arc::clone(&transfers);
            Box::pin(async move { handle::<DB>(connection, incoming, &transfers, overdraft).await })
        });
    Ok(consumer.build()?)
}

/// Events, in the transaction that records them.
async fn handle<DB: Settles>(
    connection: &mut DB::Connection,
    incoming: &[&Incoming],
    transfers: &Transfers,
    overdraft: Overdraft,
) -> Result<(), HandlerError> {
    let ids: Vec<Uuid> = incoming.iter().map(|it| transfer_id(it)).collect::<Result<_, _>>()?;
    if !DB::IS_ONE_WRITER {
        transfers.begin(&ids).await.map_err(failure)?;
    }
    let statuses = DB::settle(connection, &ids, overdraft).await.map_err(failure)?;
    for (id, status) in ids.iter().zip(statuses) {
        let Some(status) = status else {
            return Err(HandlerError::dead_letter("there is no such transfer"));
        };
        tracing::info!(transaction_id = %id, status = status.as_str(), "transaction settled");
    }
    Ok(())
}

/// What is wrong with a message is said without quoting it.
fn transfer_id(incoming: &Incoming) -> Result<Uuid, HandlerError> {
    let event: TransactionCreated = serde_json::from_slice(&incoming.message.payload)
        .map_err(|_| HandlerError::dead_letter("the payload is no TransactionCreated"))?;
    Ok(event.transaction_id)
}

/// An outage spends no attempt.
fn failure(error: LedgerError) -> HandlerError {
    match error {
        LedgerError::Unavailable(why) | LedgerError::Held(why) => {
            StoreError::new(StoreErrorKind::Unavailable, NAME, why).into()
        }
        LedgerError::Internal(why) => HandlerError::retry(why),
    }
}
