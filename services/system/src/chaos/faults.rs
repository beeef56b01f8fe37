//! The faults. Each requests the plan's transfers, injects a fault meanwhile, heals it, and reports
//! evidence that the fault took effect.

use anyhow::{Context, bail, ensure};
use lapin::{Connection, ConnectionProperties, options::QueueBindOptions, types::FieldTable};
use sqlx::{query, query_scalar};
use tokio::task::block_in_place;

use super::{BATCHES, Chaos, flow};
use crate::{eventually, system::EXCHANGE};

/// Tries to come into the middle of a batch.
const TRIES: usize = 10;

impl Chaos {
    /// No fault: every message is sent once.
    pub(super) async fn nothing(&mut self) -> anyhow::Result<String> {
        self.flow(self.plan.transfers).await?;
        self.wait_settled(self.ledger.asked.len()).await?;
        Ok(format!("{} copies", self.copies().await?))
    }

    /// RabbitMQ is down, so that a relay cannot publish the messages it has read; then the relay is
    /// killed.
    pub(super) async fn kill_before_publish(&mut self) -> anyhow::Result<String> {
        let paused = "route paused";
        let before: Vec<usize> =
            self.system.relays().iter().map(|relay| relay.count(paused)).collect();
        block_in_place(|| self.system.rabbitmq().stop())?;
        self.flow(self.plan.transfers).await?;
        let victim = eventually("a relay that has something to publish", async || {
            let relays = self.system.relays().iter().zip(&before);
            Ok(relays.into_iter().position(|(relay, before)| relay.count(paused) > *before))
        })
        .await?;
        self.system.take_relay(victim).end("KILL").await?;
        let (pending, _, _) = self.left().await?;
        self.system.restore_relays()?;
        block_in_place(|| self.system.rabbitmq().start_again())?;
        Ok(format!("{pending} were waiting"))
    }

    /// A lock keeps relays from settling delivered messages; then all relays are killed.
    pub(super) async fn kill_before_mark(&mut self) -> anyhow::Result<String> {
        let (settled, copies) = (self.ledger.settled().await?, self.copies().await?);
        let mut lock = self.ledger.pool().begin().await?;
        query(include_str!("../../sql/lock_progress.sql")).execute(&mut *lock).await?;
        self.flow(self.plan.transfers).await?;
        self.wait_settled(settled + 1).await?;
        self.end_relays("KILL").await?;
        let unmarked = self.ledger.settled().await? - settled;
        let _: i64 =
            query_scalar(include_str!("../../sql/end_relays.sql")).fetch_one(&mut *lock).await?;
        lock.rollback().await?;
        self.system.restore_relays()?;
        let more = eventually("a copy of what was not marked", async || {
            let now = self.copies().await?;
            Ok((now > copies).then_some(now))
        });
        more.await?;
        self.wait_settled(self.ledger.asked.len()).await?;
        let copies = self.copies().await? - copies;
        Ok(format!("{unmarked} settled and not marked, {copies} came again"))
    }

    /// Relays find many messages, and are killed or stopped when some of them are delivered.
    pub(super) async fn end_in_a_batch(&mut self, signal: &str) -> anyhow::Result<String> {
        let transfers = self.plan.transfers * BATCHES;
        for _ in 0..TRIES {
            self.end_relays("TERM").await?;
            self.flow(transfers).await?;
            let settled = self.ledger.settled().await?;
            self.system.restore_relays()?;
            self.wait_settled(settled + 1).await?;
            let codes = self.end_relays(signal).await?;
            let (pending, _, _) = self.left().await?;
            let settled = self.ledger.settled().await? - settled;
            self.system.restore_relays()?;
            if signal == "TERM" {
                ensure!(codes.iter().all(|code| *code == 0), "relays ended with {codes:?}");
            }
            if pending > 0 && settled < transfers {
                return Ok(format!("{settled} of {transfers} were settled"));
            }
            // The relays were too fast: all messages were delivered.
            self.wait_settled(self.ledger.asked.len()).await?;
        }
        bail!("{transfers} transfers were through before the relays ended, {TRIES} times")
    }

    /// The consumer is killed while it handles events.
    pub(super) async fn kill_consumer(&mut self) -> anyhow::Result<String> {
        let settled = self.ledger.settled().await?;
        let (client, transfers) = (self.client.clone(), self.plan.transfers);
        let flowing = tokio::spawn(async move { flow(&client, transfers).await });
        self.wait_settled(settled + transfers / 3).await?;
        self.ledger.copies_before = self.copies().await?;
        self.system.replace_settlement().await?;
        let settled = self.ledger.settled().await? - settled;
        self.ledger.asked.extend(flowing.await??);
        Ok(format!("{settled} of {transfers} were settled"))
    }

    /// The database crashes and is restarted.
    pub(super) async fn crash_postgres(&mut self) -> anyhow::Result<String> {
        let settled = self.ledger.settled().await?;
        let (client, transfers) = (self.client.clone(), self.plan.transfers * BATCHES);
        let flowing = tokio::spawn(async move { flow(&client, transfers).await });
        self.wait_settled(settled + 1).await?;
        block_in_place(|| {
            self.system.postgres().stop()?;
            self.system.postgres().start_again()
        })?;
        let asked = flowing.await??;
        let repeated = asked.iter().filter(|asked| asked.requests > 1).count();
        self.ledger.asked.extend(asked);
        Ok(format!("{repeated} of {transfers} were asked for again"))
    }

    /// No queue is bound to the exchange: RabbitMQ returns unroutable messages.
    pub(super) async fn unbind(&mut self) -> anyhow::Result<String> {
        let url = self.system.rabbitmq().url();
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let queue = format!("{EXCHANGE}.settlement");
        let key = "transaction.created";
        channel
            .queue_unbind(queue.as_str().into(), EXCHANGE.into(), key.into(), FieldTable::default())
            .await?;
        self.flow(self.plan.transfers).await?;
        let refused = eventually("a message that is refused", async || {
            let (_, retrying, _) = self.left().await?;
            Ok((retrying > 0).then_some(retrying))
        })
        .await?;
        channel
            .queue_bind(
                queue.as_str().into(),
                EXCHANGE.into(),
                key.into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await?;
        connection.close(200, "".into()).await.context("RabbitMQ does not say goodbye")?;
        Ok(format!("{refused} were returned and put aside"))
    }

    /// RabbitMQ is down while the APIs go on.
    pub(super) async fn broker_away(&mut self) -> anyhow::Result<String> {
        block_in_place(|| self.system.rabbitmq().stop())?;
        self.flow(self.plan.transfers).await?;
        tokio::time::sleep(self.plan.outage).await;
        let (pending, retrying, dead) = self.left().await?;
        block_in_place(|| self.system.rabbitmq().start_again())?;
        Ok(format!("{pending} were waiting, {retrying} retrying, {dead} dead"))
    }

    /// Ends all relays of the transfers; their exit codes.
    async fn end_relays(&mut self, signal: &str) -> anyhow::Result<Vec<i32>> {
        let mut codes = Vec::new();
        if signal == "TERM" {
            self.system.wait_relays().await?;
        }
        while !self.system.relays().is_empty() {
            codes.push(self.system.take_relay(0).end(signal).await?);
        }
        Ok(codes)
    }
}
