//! One chaos run: two relays between a database and a broker, an application that writes all the
//! time, and faults around the relays that a seed decides. Then all faults end, and the messages of
//! the broker are compared with the messages that the application committed. The seed decides the
//! faults, their order and their durations; it does not decide what the relays do at that moment. A
//! failed run leaves its folder behind, with the logs of all relays.

use std::{
    collections::{BTreeMap, HashSet},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use posthaste::{MessageId, Subscriber};
use posthaste_fixtures::{Proxy, until_stopped};
use posthaste_history::Report;
use serde::Serialize;

use crate::{
    Act, Broker, Bus, Database, Disturbance, Fault, Ledger, Link, PATIENCE, Plan, Point, Running,
    Shop, Stage, Step, Store, TOPIC, blocking, fault::LEASE,
};

/// Longest wait for all messages to arrive after the last fault.
const DRAIN: Duration = Duration::from_secs(180);

/// How long a relay has to come to a point where it is to die, and how often that is tried.
const TRY: Duration = Duration::from_secs(15);
const TRIES: usize = 8;

/// Pause after the broker could not be read.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Delay of delayed traffic: too short to miss a deadline.
const DELAY: Duration = Duration::from_millis(150);

/// What to run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which database.
    pub store: Store,
    /// Which broker.
    pub broker: Broker,
    /// Decides all numbers.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Faults,
}

/// What goes wrong in a run.
#[derive(Clone, Debug)]
pub enum Faults {
    /// So many, drawn by the seed: each that there is before any comes twice.
    Drawn(usize),
    /// These, in this order, by their names.
    Listed(Vec<String>),
    /// Relays die at every point of every step.
    Steps,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Which database.
    pub store: Store,
    /// Which broker.
    pub broker: Broker,
    /// What decided the faults.
    pub seed: u64,
    /// Shards of the route.
    pub shards: u32,
    /// How often each fault that there is happened.
    pub faults: BTreeMap<String, usize>,
    /// Messages of transactions that committed.
    pub committed: usize,
    /// Different messages that the broker has.
    pub received: usize,
    /// Repetitions that the broker has.
    pub duplicated: usize,
    /// Repetitions by cause; `none` counts those that no injected fault explains.
    pub causes: BTreeMap<String, usize>,
    /// How long the run took.
    pub seconds: u64,
}

impl Run {
    /// The command that runs it again.
    #[must_use]
    pub fn command(&self) -> String {
        let name = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
        format!(
            "cargo run --package posthaste-e2e --bin posthaste-chaos -- \
             --store {} --broker {} --seed {} {}",
            name(&self.store),
            name(&self.broker),
            self.seed,
            match &self.faults {
                Faults::Drawn(count) => format!("--faults {count}"),
                Faults::Listed(names) => format!("--list {}", names.join(",")),
                Faults::Steps => "--steps".to_owned(),
            }
        )
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let faults = match &self.faults {
            Faults::Drawn(count) => return Ok(Plan::new(self.store, self.seed, *count)),
            Faults::Steps => Fault::steps(self.store),
            Faults::Listed(names) => {
                let all = Fault::all(self.store);
                let find = |name: &String| {
                    let found = all.iter().find(|fault| fault.to_string() == *name);
                    found.copied().with_context(|| format!("no fault {name} of {:?}", self.store))
                };
                names.iter().map(find).collect::<anyhow::Result<_>>()?
            }
        };
        Ok(Plan::with(faults, self.seed))
    }

    /// Runs it.
    ///
    /// # Errors
    /// When a promise was broken, or a server is not available.
    pub async fn run(self) -> anyhow::Result<Record> {
        println!("{}", self.command());
        let began = Instant::now();
        let plan = self.plan()?;
        let (database, bus) =
            tokio::try_join!(Database::start(self.store), Bus::start(self.broker))?;
        let mut scene = Scene::set(database, bus, plan.shards).await?;
        let result = scene.play(&plan).await;
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                let folder = scene.stage.keep();
                bail!("{error:#}\nrun again: {}\nlogs: {}", self.command(), folder.display());
            }
        };
        let all = Fault::all(self.store);
        let mut faults: BTreeMap<String, usize> =
            all.iter().map(|fault| (fault.to_string(), 0)).collect();
        for step in &plan.steps {
            *faults.entry(step.fault.to_string()).or_default() += 1;
        }
        let mut causes: BTreeMap<String, usize> =
            report.causes.iter().map(|(cause, n)| (cause.as_str().to_owned(), *n)).collect();
        causes.insert("none".to_owned(), report.unexplained.len());
        causes.retain(|_, count| *count > 0);
        Ok(Record {
            store: self.store,
            broker: self.broker,
            seed: self.seed,
            shards: plan.shards,
            faults,
            committed: report.committed,
            received: report.received,
            duplicated: report.duplicated.len(),
            causes,
            seconds: began.elapsed().as_secs(),
        })
    }
}

/// The state of a run.
struct Scene {
    database: Database,
    bus: Bus,
    stage: Stage,
    shop: Option<Shop>,
    relays: Vec<Running>,
    disturbances: Vec<Disturbance>,
}

impl Scene {
    async fn set(database: Database, bus: Bus, shards: u32) -> anyhow::Result<Self> {
        let stage = Stage::on(database.url());
        stage.configure(|config| {
            let lease = format!("lease = \"{}s\"", LEASE.as_secs());
            let config = config.replace("lease = \"2s\"", &lease);
            let config = config.replace("url = \"stdout:\"", &bus.config());
            format!("{config}shards = {shards}\n")
        });
        blocking(|| stage.run(&["migrate"])).ok();
        let shop = Some(Shop::open(database.direct()).await?);
        let mut scene =
            Self { database, bus, stage, shop, relays: Vec::new(), disturbances: Vec::new() };
        scene.new_relays();
        Ok(scene)
    }

    async fn play(&mut self, plan: &Plan) -> anyhow::Result<Report> {
        serving(&self.relays).await?;
        for step in &plan.steps {
            tokio::time::sleep(step.after).await;
            println!("{} for {:?}", step.fault, step.time);
            self.apply(step).await.with_context(|| format!("after {}", step.fault))?;
            let until = Instant::now();
            self.disturbances.extend(step.fault.cause().map(|cause| Disturbance { until, cause }));
            self.all_run()?;
        }
        let shop = self.shop.take().context("it is closed once")?;
        let ledger = shop.close().await;
        self.judge(&ledger).await
    }

    /// No relay ends by itself, whatever happens around it.
    fn all_run(&mut self) -> anyhow::Result<()> {
        for relay in &mut self.relays {
            if let Some(code) = relay.ended() {
                bail!("a relay has ended by itself with {code}: {}", relay.log());
            }
        }
        Ok(())
    }

    async fn apply(&mut self, step: &Step) -> anyhow::Result<()> {
        let Step { fault, time, .. } = *step;
        match fault {
            Fault::KillRelay => {
                let relay = self.take_relay(step.relay);
                relay.kill();
                self.relays.push(self.stage.relay("killed"));
            }
            Fault::KillAt(act, point) => self.kill_at(act, point).await?,
            Fault::StopRelay => {
                let relay = self.take_relay(step.relay);
                stop(relay).await?;
                self.relays.push(self.stage.relay("stopped"));
            }
            Fault::FreezeRelay => {
                let relay = self.take_relay(step.relay);
                relay.signal("STOP");
                blocking(|| until_stopped(relay.id()));
                tokio::time::sleep(time).await;
                relay.signal("CONT");
                self.relays.push(relay);
            }
            Fault::Kill(Link::Store) => {
                blocking(|| self.database.kill())?;
                tokio::time::sleep(time).await;
                blocking(|| self.database.start_again())?;
            }
            Fault::Kill(Link::Broker) => {
                blocking(|| self.bus.server().kill())?;
                tokio::time::sleep(time).await;
                blocking(|| self.bus.server().start_again())?;
            }
            Fault::StopBroker => {
                blocking(|| self.bus.server().stop())?;
                tokio::time::sleep(time).await;
                blocking(|| self.bus.server().start_again())?;
            }
            Fault::Freeze(Link::Store) => {
                blocking(|| self.database.freeze())?;
                tokio::time::sleep(time).await;
                blocking(|| self.database.thaw())?;
            }
            Fault::Freeze(Link::Broker) => {
                blocking(|| self.bus.server().freeze())?;
                tokio::time::sleep(time).await;
                blocking(|| self.bus.server().thaw())?;
            }
            Fault::LockFile => self.lock_file(time).await?,
            Fault::Cut(link) => self.broken(link, time, Proxy::cut).await?,
            Fault::CutInMidSentence(link) => {
                self.broken(link, time, |proxy| proxy.cut_after_bytes(step.bytes)).await?;
            }
            Fault::Delay(link) => self.broken(link, time, |proxy| proxy.delay(DELAY)).await?,
            Fault::BlackHole(link) => self.broken(link, time, Proxy::black_hole).await?,
            Fault::NoAnswers(link) => self.broken(link, time, Proxy::black_hole_answers).await?,
            Fault::HalfOpen(link) => self.broken(link, time, Proxy::half_open).await?,
        }
        Ok(())
    }

    /// Relays stop where the network stops them, and die there.
    async fn kill_at(&mut self, act: Act, point: Point) -> anyhow::Result<()> {
        let (words, moment) = act.words(point);
        let trapped = self.proxy(act.link())?.trap(&words, moment);
        let mut trapped = pin!(trapped.wait());
        let mut is_caught = false;
        for _ in 0..TRIES {
            // No relay acquires a lease that another holds, or gives its lease back without being
            // told to stop.
            match act {
                Act::Acquire => self.new_relays(),
                Act::Release => {
                    serving(&self.relays).await?;
                    let serving = self.relays.iter().filter(|relay| relay.is_serving());
                    serving.for_each(|relay| relay.signal("TERM"));
                }
                _ => {}
            }
            if let Ok(caught) = tokio::time::timeout(TRY, &mut trapped).await {
                is_caught = caught;
                break;
            }
            // On a busy machine it may have lost its lease just then.
            self.new_relays();
        }
        ensure!(is_caught, "no relay came to {point:?} {act:?}");
        self.relays.clear();
        self.proxy(act.link())?.reset();
        self.new_relays();
        Ok(())
    }

    /// Kills the relays there are, and starts others.
    fn new_relays(&mut self) {
        self.relays.clear();
        self.relays.extend(["one", "two"].map(|name| self.stage.relay(name)));
    }

    /// The relay that serves, or one behind it.
    fn take_relay(&mut self, behind: usize) -> Running {
        let serving = self.relays.iter().position(Running::is_serving).unwrap_or(0);
        let at = (serving + behind) % self.relays.len();
        self.relays.remove(at)
    }

    async fn broken(
        &self,
        link: Link,
        time: Duration,
        how: impl FnOnce(&Proxy),
    ) -> anyhow::Result<()> {
        let proxy = self.proxy(link)?;
        how(proxy);
        tokio::time::sleep(time).await;
        proxy.reset();
        Ok(())
    }

    fn proxy(&self, link: Link) -> anyhow::Result<&Proxy> {
        match link {
            Link::Store => self.database.proxy().context("a file has no network"),
            Link::Broker => Ok(self.bus.proxy()),
        }
    }

    async fn lock_file(&self, time: Duration) -> anyhow::Result<()> {
        let lock = async {
            let pool = posthaste::sqlite::connect(self.database.direct()).await?;
            let transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
            tokio::time::sleep(time).await;
            transaction.rollback().await?;
            pool.close().await;
            anyhow::Ok(())
        };
        // Others write, too: it may not get its turn, which is as good.
        if let Err(error) = lock.await {
            println!("not locked: {error:#}");
        }
        Ok(())
    }

    /// Waits until all messages have arrived, stops all relays, and reads the broker to the end.
    async fn judge(&mut self, ledger: &Arc<Ledger>) -> anyhow::Result<Report> {
        let mut reading = Reading { reader: self.reader().await?, ids: Vec::new() };
        let committed = ledger.committed();
        let complete = reading.until_all(committed.iter().copied().collect()).await;
        self.all_run()?;
        if complete.is_ok() {
            for relay in self.relays.drain(..) {
                stop(relay).await?;
            }
            let end = self.send_end()?;
            reading.until_all(HashSet::from([end])).await?;
            reading.ids.retain(|id| *id != end);
        }
        let report = ledger.judge(reading.ids, &self.disturbances);
        println!("{report}");
        ensure!(report.breaches().is_empty(), "{:?}: {report}", report.breaches());
        complete?;
        ensure!(report.committed > 0, "nothing was written");
        let dead = blocking(|| self.stage.run(&["dead", "list", "--json"]));
        ensure!(dead.code == 0 && dead.out.trim().is_empty(), "dead letters: {dead:#?}");
        Ok(report)
    }

    /// Ends all faults; servers and connections may need a moment to recover.
    async fn reader(&self) -> anyhow::Result<Box<dyn Subscriber>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.bus.reader().await {
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
                reader => return reader,
            }
        }
    }

    /// The last message of all, by a relay that ends when it is delivered.
    fn send_end(&self) -> anyhow::Result<MessageId> {
        blocking(|| {
            let sent = self.stage.run(&["send", "--topic", TOPIC, "--payload", "end"]);
            ensure!(sent.code == 0, "cannot send: {sent:#?}");
            let once = self.stage.run(&["relay", "--once"]);
            ensure!(once.code == 0, "cannot relay: {once:#?}");
            sent.out.trim().parse().context("it prints the id")
        })
    }
}

async fn serving(relays: &[Running]) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !relays.iter().any(Running::is_serving) {
        ensure!(Instant::now() < deadline, "no relay serves: {}", relays[0].log());
        tokio::time::sleep(crate::LOOK_EVERY).await;
    }
    Ok(())
}

/// Tells a relay to stop: it does, and says that all is well.
async fn stop(relay: Running) -> anyhow::Result<()> {
    let log = relay.log_path();
    let code = relay.stop().await;
    ensure!(code == 0, "a relay told to stop ended with {code}: {}", log.display());
    Ok(())
}

/// The messages read from the broker, in order.
struct Reading {
    reader: Box<dyn Subscriber>,
    ids: Vec<MessageId>,
}

impl Reading {
    /// Reads until all of these have been read.
    async fn until_all(&mut self, mut missing: HashSet<MessageId>) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + DRAIN;
        self.ids.iter().for_each(|id| _ = missing.remove(id));
        while !missing.is_empty() {
            let received = tokio::time::timeout_at(deadline, self.reader.receive()).await;
            let Ok(received) = received else {
                bail!("{} messages have not arrived within {DRAIN:?}", missing.len());
            };
            let Ok(incoming) = received else {
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            };
            missing.remove(&incoming.message.id);
            self.ids.push(incoming.message.id);
            // An acknowledgement that the broker did not get causes a repetition, which does no
            // harm.
            let _ = self.reader.acknowledge(incoming.receipt).await;
        }
        Ok(())
    }
}
