//! What cases share: topics, messages, calls whose terms are always checked, and waiting.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use posthaste_core::{
    Broker, BrokerError, Delivery, Failure, Floor, Incoming, Message, MessageId, Outcome, Seq,
    Shard, Sharing, Start, Subscriber, Subscription, TopicPattern,
};
use posthaste_wire::Wire;
use uuid::Uuid;

use super::{Bed, Faults, inbox::Inbox};

/// Longest wait for anything that must come.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(120);
/// The deadline of calls that should have an answer long before.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);
/// How much longer than its deadline a call may take. A relay waits a second; here other programs keep
/// the machine busy, and whoever forgets the deadline takes longer by far.
pub(super) const GRACE: Duration = Duration::from_secs(8);
/// What is in every payload that must not be shown.
pub(super) const CANARY: &str = "hunter2-payload";

/// A bed, and what is made up on it.
#[derive(Clone)]
pub(super) struct Kit {
    pub(super) bed: Arc<dyn Bed>,
    seq: Arc<AtomicI64>,
    /// Makes names of this case its own.
    tag: String,
}

impl Kit {
    pub(super) fn new(bed: Arc<dyn Bed>) -> Self {
        Self { bed, seq: Arc::new(AtomicI64::new(1)), tag: MessageId::fresh().to_string() }
    }

    /// An adapter with the default wire form.
    pub(super) async fn broker(&self) -> Arc<dyn Broker> {
        self.bed.broker(Wire::default()).await
    }

    /// A topic of the case's own.
    pub(super) async fn topic(&self) -> String {
        self.topics(&[""]).await.remove(0)
    }

    /// Topics of the case's own, that begin alike.
    pub(super) async fn topics(&self, endings: &[&str]) -> Vec<String> {
        let topics = self.bed.topics(endings).await;
        assert_eq!(topics.len(), endings.len(), "the bed gives one topic for each ending");
        topics
    }

    /// A passing listener on these patterns.
    pub(super) async fn inbox(&self, patterns: &[&str]) -> Inbox {
        self.inbox_of(Wire::default(), subscription(None, patterns)).await
    }

    /// Receives and acknowledges what arrives.
    pub(super) async fn inbox_of(&self, wire: Wire, subscription: Subscription) -> Inbox {
        Inbox::new(self.bed.subscriber(wire, subscription).await)
    }

    /// A subscription's name that no other case uses.
    pub(super) fn name(&self, label: &str) -> String {
        format!("{label}-{}", self.tag)
    }

    /// Receives and acknowledges what arrives, under a name if the broker has names: such a one
    /// outlives a restart of the server.
    pub(super) async fn durable_inbox(&self, topic: &str) -> Inbox {
        let name = self.bed.traits().has_names.then(|| self.name("durable"));
        self.inbox_of(Wire::default(), subscription(name.as_deref(), &[topic])).await
    }

    /// A subscriber by its own hands.
    pub(super) async fn subscriber(
        &self,
        name: Option<&str>,
        patterns: &[&str],
    ) -> Box<dyn Subscriber> {
        let name = name.map(|name| self.name(name));
        self.bed.subscriber(Wire::default(), subscription(name.as_deref(), patterns)).await
    }

    /// The faults of a bed that has some.
    pub(super) fn faults(&self) -> &dyn Faults {
        self.bed.faults().expect("a private bed has faults")
    }

    /// A message on its way: the next of the log.
    pub(super) fn delivery(&self, message: Message) -> Arc<Delivery> {
        let seq = self.seq.fetch_add(1, Ordering::Relaxed);
        let delivery = Delivery {
            seq,
            message,
            enqueued_at: enqueued_at(seq),
            attempt: 1,
            redriven: 0,
            floor: Some(Arc::new(floor(seq))),
        };
        Arc::new(delivery)
    }

    /// Messages on their way, in this order.
    pub(super) fn deliveries(
        &self,
        messages: impl IntoIterator<Item = Message>,
    ) -> Vec<Arc<Delivery>> {
        messages.into_iter().map(|message| self.delivery(message)).collect()
    }

    /// Publishes one more message of the key and waits until it arrives: whatever was to arrive
    /// before it has.
    pub(super) async fn fence(&self, broker: &dyn Broker, inbox: &Inbox, topic: &str, key: &str) {
        let fence = self.delivery(Message::from_bytes(topic, Some(key), "fence"));
        publish(broker, std::slice::from_ref(&fence)).await;
        inbox.until_has("the message sent last", &[fence]).await;
    }
}

/// What a relay may say with such a message.
fn floor(seq: Seq) -> Floor {
    let shard = Shard { index: 1, of: 3 };
    let missing = [seq - 9, seq - 2].into_iter().filter(|missing| *missing > 0).collect();
    Floor { log: Uuid::from_u128(0x0190_d8a4), shard, seq: seq - 1, missing }
}

/// Some moment, to the microsecond, later for later messages.
fn enqueued_at(seq: i64) -> SystemTime {
    let micros = 1_767_323_045_678_901 + seq.unsigned_abs();
    UNIX_EPOCH + Duration::from_micros(micros)
}

/// A subscription to what is new.
pub(super) fn subscription(name: Option<&str>, patterns: &[&str]) -> Subscription {
    let topics = patterns.iter().map(|pattern| self::pattern(pattern)).collect();
    Subscription {
        name: name.map(str::to_owned),
        topics,
        start: Start::New,
        sharing: Sharing::Competing,
    }
}

/// A topic pattern.
pub(super) fn pattern(text: &str) -> TopicPattern {
    text.parse().unwrap_or_else(|error| panic!("the bed's topics are legal: {error}"))
}

/// A small message.
pub(super) fn message(topic: &str, key: Option<&str>, number: usize) -> Message {
    Message::from_bytes(topic, key, format!("{{\"number\":{number}}}"))
}

/// One call. Whatever the case is about: it keeps its deadline, there is one outcome for each message,
/// and what is said of a failure may be shown to anyone.
pub(super) async fn call(
    broker: &dyn Broker,
    messages: &[Arc<Delivery>],
    deadline: Duration,
) -> Vec<Outcome> {
    let answered = tokio::time::timeout(deadline + GRACE, broker.publish(messages, deadline)).await;
    let Ok(outcomes) = answered else {
        panic!("a call of {} messages ran past its deadline of {deadline:?}", messages.len());
    };
    assert_eq!(outcomes.len(), messages.len(), "a call has one outcome for each message");
    for (outcome, delivery) in outcomes.iter().zip(messages) {
        if let Some(failure) = failure(outcome) {
            check_failure(failure, &delivery.message);
        }
    }
    outcomes
}

/// What went wrong, if anything did.
pub(super) fn failure(outcome: &Outcome) -> Option<&Failure> {
    match outcome {
        Outcome::Acked => None,
        Outcome::Rejected(failure) | Outcome::Unreachable(failure) | Outcome::Unknown(failure) => {
            Some(failure)
        }
    }
}

fn check_failure(failure: &Failure, message: &Message) {
    let Failure { class, detail, .. } = failure;
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(
        !class.is_empty() && class.len() <= 24 && class.chars().all(is_word),
        "a failure's class is a short word, not {class:?}"
    );
    assert!(!detail.trim().is_empty(), "a failure of class {class} says what happened");
    assert!(!detail.contains(CANARY), "a failure shows a payload: {detail}");
    let is_shown = |value: &str| value.len() > 8 && detail.contains(value);
    for (name, value) in &message.headers {
        assert!(!is_shown(value), "a failure shows the value of header {name:?}: {detail}");
    }
}

/// One call, all of which must be acknowledged.
pub(super) async fn publish(broker: &dyn Broker, messages: &[Arc<Delivery>]) {
    let outcomes = call(broker, messages, DEADLINE).await;
    for (outcome, delivery) in outcomes.iter().zip(messages) {
        assert_eq!(*outcome, Outcome::Acked, "of {:?}", delivery.message);
    }
}

/// Waits for something that must come, and says what did not.
pub(super) async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WAIT_MAX, coming).await {
        Ok(come) => come,
        Err(_) => panic!("{what}: not within {WAIT_MAX:?}"),
    }
}

/// Receives a number of messages and acknowledges each.
pub(super) async fn receive_all(
    subscriber: &mut dyn Subscriber,
    what: &str,
    count: usize,
) -> Result<Vec<Incoming>, BrokerError> {
    let mut all = Vec::with_capacity(count);
    for n in 0..count {
        let what = format!("{what}, {n} of {count} so far");
        let incoming = within(&what, subscriber.receive()).await?;
        subscriber.acknowledge(incoming.receipt).await?;
        all.push(incoming);
    }
    Ok(all)
}

/// The ids of what arrived.
pub(super) fn ids_of(arrived: &[Incoming]) -> Vec<MessageId> {
    arrived.iter().map(|incoming| incoming.message.id).collect()
}

/// The ids of what was sent.
pub(super) fn ids(sent: &[Arc<Delivery>]) -> Vec<MessageId> {
    sent.iter().map(|delivery| delivery.message.id).collect()
}

/// Checks that a text is one line, and shows no password of a URL.
pub(super) fn check_presentable(text: &str) {
    assert!(!text.trim().is_empty() && !text.contains('\n'), "one line, not {text:?}");
    for (at, _) in text.match_indices("://") {
        let rest = &text[at + 3..];
        let authority = rest.split(|c: char| c == '/' || c.is_whitespace()).next();
        let userinfo = authority.and_then(|authority| authority.rsplit_once('@'));
        let password = userinfo.and_then(|(user, _)| user.split_once(':'));
        let is_shown = password.is_some_and(|(_, it)| !it.chars().all(|c| "*x.…".contains(c)));
        assert!(!is_shown, "a password is shown: {text}");
    }
}
