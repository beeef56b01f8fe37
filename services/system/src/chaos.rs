//! Faults while transfers flow, one after the other, and what must hold after all of them: every transfer
//! is settled exactly once, balances add up to zero, nothing is stuck, and nothing failed because something
//! was away.
//!
//! `faults.rs` has the faults; `ledger.rs` compares the requested transfers with the database.

mod faults;
mod ledger;

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::future::try_join_all;

use self::ledger::Ledger;
use crate::{Asked, Client, Options, Report, System, eventually};

/// Who pays whom.
const USERS: usize = 10;

/// Clients that ask at once.
const CLIENTS: usize = 8;

/// How a relay is configured for this: taken over from soon, and slow enough for a fault to come into the
/// middle of a batch.
const LEASE: Duration = Duration::from_secs(2);
const IN_FLIGHT: u32 = 1;

/// Times the transfers of other faults, for those that must come into the middle of something.
const BATCHES: usize = 5;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Relays of the transfers.
    pub relays: u16,
    /// Transfers for each fault.
    pub transfers: usize,
    /// How long RabbitMQ is away.
    pub outage: Duration,
}

impl Plan {
    /// Over 10,000 transfers, three relays, a minute without RabbitMQ.
    pub const FULL: Self = Self { relays: 3, transfers: 500, outage: Duration::from_secs(60) };
    /// The same faults in a fraction of the time.
    pub const QUICK: Self = Self { relays: 2, transfers: 60, outage: Duration::from_secs(3) };
}

/// A system in trouble.
struct Chaos {
    system: System,
    client: Client,
    plan: Plan,
    ledger: Ledger,
}

/// Starts the system, injects the faults, and reports the results.
///
/// # Errors
/// When something cannot be started, or does not go on after a fault. What is wrong is in the report.
pub async fn run(plan: Plan, report: &mut Report<'_>) -> anyhow::Result<()> {
    let Plan { relays, transfers, .. } = plan;
    let options = Options { relays, lease: LEASE, in_flight: IN_FLIGHT, overdraft: None };
    let system = System::start(&options, |line| report.say(line)).await?;
    let client = Client::new(&system)?;
    let ledger = Ledger::new(system.database())?;
    let mut chaos = Chaos { system, client, plan, ledger };
    report.say(&format!("\n{transfers} transfers or more for each of these:\n"));
    chaos.faults(report).await?;
    report.say(&format!("\nThen, of {} transfers:\n", chaos.ledger.asked.len()));
    chaos.verdict(report).await?;
    chaos.system.stop().await?;
    report.verdict();
    Ok(())
}

impl Chaos {
    async fn faults(&mut self, report: &mut Report<'_>) -> anyhow::Result<()> {
        let seen = self.nothing().await?;
        self.healed("nothing goes wrong", seen, report).await?;
        let seen = self.kill_before_publish().await?;
        self.healed("relay killed after claim, before publish", seen, report).await?;
        let seen = self.kill_before_mark().await?;
        self.healed("relay killed after publish, before mark", seen, report).await?;
        let seen = self.end_in_a_batch("KILL").await?;
        self.healed("relays killed in a batch", seen, report).await?;
        let seen = self.end_in_a_batch("TERM").await?;
        self.healed("relays stopped (SIGTERM) in a batch", seen, report).await?;
        let seen = self.kill_consumer().await?;
        self.healed("consumer killed while it settles", seen, report).await?;
        let seen = self.crash_postgres().await?;
        self.healed("PostgreSQL crashed and restarted", seen, report).await?;
        let seen = self.unbind().await?;
        self.healed("exchange leads nowhere for a while", seen, report).await?;
        let seen = self.broker_away().await?;
        let what = format!("RabbitMQ away for {} s", self.plan.outage.as_secs());
        self.healed(&what, seen, report).await
    }

    /// Waits until all requested transfers are settled, and reports it.
    async fn healed(
        &mut self,
        what: &str,
        seen: String,
        report: &mut Report<'_>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        let asked = self.ledger.asked.len();
        let settled = self.wait_settled(asked).await;
        let took = began.elapsed().as_secs_f64();
        report.check(what, format!("{seen}; all settled {took:.1} s later"), settled.is_ok());
        settled.with_context(|| format!("after the fault: {what}"))
    }

    /// Waits until at least so many transfers are settled. The database may be away meanwhile.
    async fn wait_settled(&self, count: usize) -> anyhow::Result<()> {
        eventually(&format!("{count} settled transfers"), async || {
            let settled = self.ledger.settled().await;
            Ok(settled.is_ok_and(|settled| settled >= count).then_some(()))
        })
        .await
    }

    /// Asks for transfers, by several clients at once.
    async fn flow(&mut self, transfers: usize) -> anyhow::Result<()> {
        let asked = flow(&self.client, transfers).await?;
        self.ledger.asked.extend(asked);
        Ok(())
    }

    async fn verdict(&mut self, report: &mut Report<'_>) -> anyhow::Result<()> {
        let asked = self.ledger.asked.len();
        let statuses = self.ledger.statuses().await?;
        let seen: Vec<String> =
            statuses.iter().map(|(status, count)| format!("{count} {status}")).collect();
        let is_right = statuses == [("COMPLETED".to_owned(), asked)];
        report.check("each is there, and COMPLETED", seen.join(", "), is_right);

        let (handled, given_up) = self.ledger.handled().await?;
        let copies = self.copies().await?;
        let seen =
            format!("{handled} events handled, {copies} copies dropped, {given_up} given up");
        report.check("each was settled once", seen, (handled, given_up) == (asked, 0));

        let (found, expected) = (self.ledger.balances().await?, self.ledger.expected());
        let wrong = expected.iter().filter(|(user, sum)| found.get(*user) != Some(*sum)).count();
        let sum: i128 = found.values().sum();
        let seen = format!("{} users, {wrong} wrong, together {sum}", found.len());
        report.check(
            "each balance is the sum of its transfers",
            seen,
            found == expected && sum == 0,
        );

        // What is delivered is written down a moment later, and a refused message forgotten.
        let left = eventually("the outbox to be empty", async || {
            let left = self.left().await?;
            Ok((left.0 == 0 && left.1 == 0).then_some(left))
        })
        .await;
        let left = match left {
            Ok(left) => left,
            Err(_) => self.left().await?,
        };
        let seen = format!("{} pending, {} retrying, {} dead", left.0, left.1, left.2);
        report.check("nothing is stuck, nothing was given up", seen, left == (0, 0, 0));
        Ok(())
    }

    /// What the outbox says of itself: pending, retrying, dead.
    async fn left(&self) -> anyhow::Result<(u64, u64, u64)> {
        let status = self.system.status().await?;
        let count = |name: &str| status["routes"][0][name].as_u64().unwrap_or(u64::MAX);
        Ok((count("pending"), count("retrying"), count("dead")))
    }

    /// Copies of events that consumers have dropped so far.
    async fn copies(&self) -> anyhow::Result<u64> {
        let text = self.client.text(&format!("{}/metrics", self.system.settlement())).await?;
        let series = "posthaste_inbox_duplicates_total{consumer=\"settlement\"} ";
        let now = text.lines().find_map(|line| line.strip_prefix(series)?.parse().ok());
        Ok(self.ledger.copies_before + now.unwrap_or(0))
    }
}

async fn flow(client: &Client, transfers: usize) -> anyhow::Result<Vec<Asked>> {
    let clients = (0..CLIENTS).map(|number| {
        let client = client.clone();
        // In tasks, so that they go on while this one does something else.
        let asking = tokio::spawn(async move {
            let mut asked = Vec::new();
            for _ in (number..transfers).step_by(CLIENTS) {
                let from = fastrand::usize(0..USERS);
                let to = (from + fastrand::usize(1..USERS)) % USERS;
                let amount = fastrand::i64(1..=1000);
                let (from, to) = (format!("user-{from}"), format!("user-{to}"));
                asked.push(client.transfer(&from, &to, amount).await?);
            }
            anyhow::Ok(asked)
        });
        async { asking.await? }
    });
    Ok(try_join_all(clients).await?.into_iter().flatten().collect())
}
