//! R8.06 from end to end: a relay on a real database says with every message what the broker had
//! acknowledged before, while it is killed again and again, answers are lost and transactions commit
//! late; a consumer that keeps nothing but a watermark takes the lane, and crashes too.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use posthaste::{
    Broker, BrokerError, Handled, Inbox, Incoming, Input, Message, MessageId, Outbox, Provenance,
    Relay, TopicPattern,
};
use posthaste_core::{BrokerCapabilities, CallOrder, Delivery, Failure, Finding, Outcome, Seq};
use tokio::{sync::Notify, time::timeout};

use crate::bed::{Base, Bed, LONG, on_each_database, tell};

/// Relays that are killed.
const RELAYS: usize = 6;
/// Messages of a transaction.
const MESSAGES: usize = 5;

/// A broker with one lane: keeps everything in the order in which it came, and loses answers.
#[derive(Default)]
pub(crate) struct Lane {
    arrived: Mutex<Vec<Incoming>>,
    changed: Notify,
}

impl Lane {
    pub(crate) fn arrived(&self) -> MutexGuard<'_, Vec<Incoming>> {
        self.arrived.lock().expect("nobody panics with it")
    }

    /// Takes messages; whether the answer is lost.
    fn take(&self, messages: &[Arc<Delivery>]) -> bool {
        let mut arrived = self.arrived();
        for delivery in messages {
            let provenance = Provenance {
                source: Some("/shop".to_owned()),
                seq: Some(delivery.seq),
                floor: delivery.floor.as_deref().cloned(),
                enqueued_at: Some(delivery.enqueued_at),
                ..Provenance::default()
            };
            let (message, lane) = (delivery.message.clone(), Some("lane".into()));
            arrived.push(Incoming { message, provenance, receipt: 0, lane });
        }
        arrived.len().is_multiple_of(13)
    }

    /// Waits for a message; the floor that it carries.
    async fn wait_for(&self, id: MessageId) -> Seq {
        let find = || {
            let arrived = self.arrived();
            let found = arrived.iter().rev().find(|it| it.message.id == id)?;
            Some(found.provenance.floor.as_ref().map_or(0, |floor| floor.seq))
        };
        loop {
            let changed = self.changed.notified();
            if let Some(floor) = find() {
                return floor;
            }
            timeout(LONG, changed).await.expect("it sends");
        }
    }
}

#[async_trait]
impl Broker for Lane {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::Total, call_messages_max: 7 }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], _: Duration) -> Vec<Outcome> {
        let is_lost = self.take(messages);
        self.changed.notify_one();
        // Here a relay can be killed that does not know yet what arrived.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let lost = || Outcome::Unknown(Failure::new("lost", "the answer"));
        let answer = || if is_lost { lost() } else { Outcome::Acked };
        messages.iter().map(|_| answer()).collect()
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

/// An open transaction with messages in it, and their ids.
async fn enqueue<DB: Base>(bed: &Bed<DB>) -> (DB::Transaction, Vec<MessageId>) {
    let messages = (0..MESSAGES).map(|n| Message::new("orders", n % 3, &n).expect("a message"));
    let mut tx = DB::begin(&bed.pool).await.expect("a transaction");
    let ids = Outbox::<DB>::new().enqueue_all(&mut tx, messages).await.expect("enqueued");
    (tx, ids)
}

async fn enqueue_now<DB: Base>(bed: &Bed<DB>, ids: &mut Vec<MessageId>) -> MessageId {
    let (tx, new) = enqueue(bed).await;
    DB::commit(tx).await.expect("a commit");
    ids.extend(new);
    ids[ids.len() - 1]
}

fn relay<DB: Base>(bed: &Bed<DB>, lane: &Arc<Lane>) -> Relay {
    let broker: Arc<dyn Broker> = Arc::clone(lane) as Arc<dyn Broker>;
    let relay = Relay::builder(bed.pool.clone()).route("all", "*", broker);
    let relay = relay.settings(|settings| settings.poll = Duration::from_millis(10));
    relay.build().expect("a relay")
}

/// Lets relays die in the middle of it, one after another, then lets one finish. Every id enqueued,
/// and how many relays had a floor to tell before they died.
async fn send<DB: Base>(bed: &Bed<DB>, lane: &Arc<Lane>) -> (Vec<MessageId>, usize) {
    let (mut ids, mut late, mut floors) = (Vec::new(), None, 0);
    for _ in 0..RELAYS {
        let running = relay(bed, lane).spawn();
        let last = enqueue_now(bed, &mut ids).await;
        lane.wait_for(last).await;
        // What the last relay did not see is committed now, behind what has been sent.
        if let Some(late) = late.take() {
            DB::commit(late).await.expect("a commit");
        }
        // A floor rises as it can be proved, which takes settlements and, on PostgreSQL, the end of
        // every transaction that was open, of whatever database: goes on until it does.
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            let last = enqueue_now(bed, &mut ids).await;
            if lane.wait_for(last).await > 0 {
                floors += 1;
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if DB::HAS_CONCURRENT_WRITERS {
            let (open, new) = enqueue(bed).await;
            late = Some(open);
            ids.extend(new);
        }
        let first = enqueue_now(bed, &mut ids).await;
        for _ in 0..4 {
            enqueue_now(bed, &mut ids).await;
        }
        lane.wait_for(first).await;
        running.kill();
        DB::act(&bed.pool, DB::EXPIRE).await;
    }
    if let Some(late) = late {
        DB::commit(late).await.expect("a commit");
    }
    let last = timeout(LONG, relay(bed, lane).run_once()).await.expect("in time");
    last.expect("everything is sent");
    (ids, floors)
}

/// Takes the lane in order; crashes before commits and before acknowledgements.
async fn consume<DB: Base>(bed: &Bed<DB>, arrived: &[Incoming]) {
    let inbox = Inbox::<DB>::new("c").watermark();
    let mut random = fastrand::Rng::with_seed(8);
    let mut acknowledged = 0;
    while acknowledged < arrived.len() {
        let end = (acknowledged + random.usize(1..20)).min(arrived.len());
        let batch = &arrived[acknowledged..end];
        let inputs: Vec<Input<'_>> = batch.iter().map(Input::from).collect();
        let mut tx = inbox.begin_all(&bed.pool, &inputs).await.expect("an answer");
        for (index, incoming) in batch.iter().enumerate() {
            if tx.is_new(index) {
                tell::<DB>(&mut tx, &incoming.message.id.to_string()).await.expect("a row");
            }
        }
        match random.u8(0..4) {
            0 => drop(tx),
            fate => {
                assert_eq!(tx.commit().await.expect("a commit"), Handled::Done(()));
                // It is not told to the broker every time, which gives it out again then.
                acknowledged = if fate == 1 { acknowledged } else { end };
            }
        }
    }
}

async fn r8_06_what_relays_say_while_they_die_is_enough_for_a_watermark<DB: Base>() {
    let (bed, lane) = (Bed::<DB>::new().await, Arc::new(Lane::default()));
    let (ids, floors) = send(&bed, &lane).await;
    assert_eq!(floors, RELAYS, "every relay can say something");
    let arrived = lane.arrived().clone();
    consume(&bed, &arrived).await;
    let mut ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.sort_unstable();
    assert_eq!(bed.told().await, ids, "each once, none lost");
    let copies = arrived.len() - ids.len();
    assert!(copies > 0, "relays that die send again");
    let lanes = DB::look(&bed.pool, DB::LANES).await;
    assert_eq!(lanes.len(), 1);
    println!("{} messages, {copies} copies, watermark {}", ids.len(), lanes[0]);
}

on_each_database!(r8_06_what_relays_say_while_they_die_is_enough_for_a_watermark);
