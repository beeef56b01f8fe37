//! `demo`: shows the whole pattern in one process, with nothing installed.
//!
//! A shop commits orders and their messages together; a relay delivers the messages to a broker; a
//! warehouse records the messages that arrive. The demo stops the broker for a while, and later
//! kills and replaces the relay. The verdict at the end is computed from the databases of both
//! sides.

mod screen;
mod shop;
mod verdict;
mod warehouse;

use std::{
    io::Write,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use posthaste::{IntoStore, Relay, Running, Store};
use posthaste_broker_memory::MemoryBroker;
use sqlx::SqlitePool;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::{
    screen::{Frame, Screen, verdict_line},
    shop::Tally,
    verdict::Verdict,
};
use crate::args::DemoArgs;

/// Longest wait for the last deliveries once the writers have stopped.
const DRAIN_MAX: Duration = Duration::from_secs(12);
/// The lease of the demo's relays: the shards of a dead relay are free after this time.
const LEASE: Duration = Duration::from_secs(2);
/// Time between two frames of the display.
const FRAME: Duration = Duration::from_millis(200);
/// With `--sabotage` the consumer loses this message.
const LOST: u64 = 100;

/// Runs the demo. It succeeds only if all promises hold.
pub(crate) async fn run(args: DemoArgs) -> Result<ExitCode> {
    let folder = tempfile::tempdir().context("no temporary folder for the demo's databases")?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let shop = shop::open(&format!("sqlite:{}", path("shop.db"))).await?;
    let warehouse = warehouse::open(&format!("sqlite:{}", path("warehouse.db"))).await?;

    let mut demo = Demo::start(shop.clone(), warehouse, args.sabotage);
    let outcome = demo.play(Duration::from_secs(args.seconds)).await;
    demo.screen.clear();
    outcome?;
    let verdict = Verdict::of(&shop, &path("warehouse.db")).await?;
    print(&verdict, demo.tally.rolled_back.load(Ordering::Relaxed))?;
    Ok(if verdict.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Demo {
    store: Arc<dyn Store>,
    shop: SqlitePool,
    broker: MemoryBroker,
    tally: Arc<Tally>,
    received: Arc<AtomicU64>,
    /// Writers and consumer; none of them may fail.
    tasks: JoinSet<Result<()>>,
    stop_writing: CancellationToken,
    screen: Screen,
}

impl Demo {
    fn start(shop: SqlitePool, warehouse: SqlitePool, sabotage: bool) -> Self {
        let broker = MemoryBroker::new();
        let (tally, received) = (Arc::<Tally>::default(), Arc::<AtomicU64>::default());
        let stop_writing = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for _ in 0..shop::WRITERS {
            tasks.spawn(shop::place_orders(shop.clone(), tally.clone(), stop_writing.clone()));
        }
        let subscriber = broker.subscribe("warehouse");
        let lose = sabotage.then_some(LOST);
        tasks.spawn(warehouse::receive(warehouse, subscriber, received.clone(), lose));
        let store = shop.clone().into_store();
        Self { store, shop, broker, tally, received, tasks, stop_writing, screen: Screen::new() }
    }

    /// Plays the events of the demo over the given time, then waits until all messages are
    /// delivered.
    async fn play(&mut self, time: Duration) -> Result<()> {
        let start = Instant::now();
        let at = |tenths: u32| start + time * tenths / 10;
        self.screen.say(&format!(
            "{} writers place orders; a relay delivers their messages to a broker",
            shop::WRITERS
        ));
        let relay = self.relay("first")?;
        self.watch_until(at(3)).await?;

        self.broker.set_down(true);
        self.screen.say("the broker is down: orders go on, messages wait");
        self.watch_until(at(5)).await?;
        self.broker.set_down(false);
        self.screen.say("the broker is back");
        self.watch_until(at(7)).await?;

        relay.kill();
        self.screen.say("the relay is killed in the middle of its work; another takes over");
        let relay = self.relay("second")?;
        self.watch_until(at(10)).await?;

        self.stop_writing.cancel();
        self.screen.say("the writers stop; the relay delivers the waiting messages");
        self.wait_until_delivered().await?;
        relay.shutdown().await?;
        Ok(())
    }

    fn relay(&self, name: &str) -> Result<Running> {
        let relay = Relay::builder(self.shop.clone())
            .route("warehouse", "shop.*", Arc::new(self.broker.clone()))
            .publish_timeout(LEASE / 4)
            .settings(|settings| {
                settings.name = name.to_owned();
                settings.lease = LEASE;
                settings.poll = Duration::from_millis(50);
            })
            .build()?;
        Ok(relay.spawn())
    }

    async fn watch_until(&mut self, end: Instant) -> Result<()> {
        while Instant::now() < end {
            self.look().await?;
            sleep_until(end.min(Instant::now() + FRAME)).await;
        }
        Ok(())
    }

    /// All messages are delivered when the route's position has passed them and the consumer has
    /// recorded every message that the broker accepted.
    async fn wait_until_delivered(&mut self) -> Result<()> {
        let deadline = Instant::now() + DRAIN_MAX;
        while Instant::now() < deadline {
            let pending = self.look().await?;
            let taken = self.broker.received().len() as u64;
            if pending == 0 && self.received.load(Ordering::Relaxed) >= taken {
                return Ok(());
            }
            sleep(FRAME).await;
        }
        // Not an error: the verdict counts the missing messages.
        self.screen.say("not all messages were delivered in time");
        Ok(())
    }

    /// Shows the counters and returns the number of messages that were not sent yet.
    async fn look(&mut self) -> Result<u64> {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.context("a task of the demo panicked")??;
            if !self.stop_writing.is_cancelled() {
                bail!("a task of the demo ended early");
            }
        }
        let status = self.store.status().await?;
        let route = status.routes.first();
        let lag = route.map_or(0.0, |route| route.oldest_pending_age_seconds);
        self.screen.show(Frame {
            committed: self.tally.committed.load(Ordering::Relaxed),
            rolled_back: self.tally.rolled_back.load(Ordering::Relaxed),
            delivered: self.received.load(Ordering::Relaxed),
            lag: Duration::from_secs_f64(lag.max(0.0)),
        });
        Ok(route.map_or(u64::MAX, |route| route.pending + route.retrying))
    }
}

fn print(verdict: &Verdict, rolled_back: u64) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let line =
        |is_good: bool, what: &str, count: i64| verdict_line(is_good, what, &count.to_string());
    writeln!(out, "\nWhat both databases say:")?;
    writeln!(
        out,
        "{}",
        line(verdict.committed > 0, "orders committed by the shop", verdict.committed)
    )?;
    let all = verdict.delivered == verdict.committed;
    writeln!(out, "{}", line(all, "of them delivered to the warehouse", verdict.delivered))?;
    writeln!(out, "{}", line(verdict.lost == 0, "lost", verdict.lost))?;
    let what = format!("sent although rolled back (of {rolled_back} roll-backs)");
    writeln!(out, "{}", line(verdict.phantom == 0, &what, verdict.phantom))?;
    writeln!(
        out,
        "{}",
        line(verdict.reordered == 0, "out of order for their customer", verdict.reordered)
    )?;
    writeln!(
        out,
        "{}",
        line(true, "duplicates, all with the id of the first", verdict.duplicates)
    )?;
    let judgement = if verdict.holds() { "The promises hold." } else { "A promise is broken." };
    writeln!(out, "\n{judgement}")?;
    Ok(())
}
