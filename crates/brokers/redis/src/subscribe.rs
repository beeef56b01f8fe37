//! Subscribing: streams become messages, and a name becomes a consumer group.

use std::{
    collections::{HashMap, VecDeque},
    future::pending,
    pin::Pin,
    sync::Arc,
};

use async_trait::async_trait;
use posthaste_core::{BrokerError, Incoming, Sharing, Subscriber, Subscription};
use posthaste_wire::Wire;
use redis::cmd;
use tokio::time::timeout;

use crate::{
    Config, NAMES,
    config::Target,
    connect::{Session, nonsense},
    entry::Entry,
    outcome::{Fault, broker_error},
    reader::{PATIENCE, Reader},
};

/// Most messages that are received and not acknowledged; about, where there are many streams.
const PREFETCH: usize = 256;

/// Receives from Redis Streams.
pub struct RedisSubscriber {
    wire: Wire,
    target: Arc<Target>,
    /// The consumer group; a listener has none.
    group: Option<String>,
    /// Away while it reads.
    reader: Option<Reader>,
    /// A read under way. It stays here when a `receive` is dropped.
    reading: Option<Reading>,
    read: VecDeque<Entry>,
    /// Stream and id of what has been handed out.
    unacknowledged: HashMap<u64, (String, String)>,
    receipts: u64,
    /// For acknowledgements: the reader's connection is busy waiting.
    session: Option<Session>,
}

type Reading = Pin<Box<dyn Future<Output = (Reader, Result<Vec<Entry>, Fault>)> + Send>>;

/// Subscribes. What is published after this returns will be received, from streams that match a
/// pattern and do not exist yet as well.
///
/// # Errors
/// When the configuration is wrong, the server cannot be used, or the subscription is ordered.
pub async fn subscribe(
    config: &Config,
    subscription: &Subscription,
) -> Result<RedisSubscriber, BrokerError> {
    let refused = |message: String| BrokerError { message, source: None };
    if subscription.sharing == Sharing::Ordered {
        return Err(refused(
            "a consumer group of Redis gives messages to whichever subscriber asks first: there is \
             no ordered subscription"
                .to_owned(),
        ));
    }
    let target = config.target().map_err(|invalid| refused(invalid.to_string()))?;
    let target = Arc::new(target);
    let destination = &config.wire.destination;
    let mut reader = Reader::new(Arc::clone(&target), destination, subscription);
    reader.connect().await.map_err(|fault| broker_error(&target.to_string(), fault))?;
    Ok(RedisSubscriber {
        wire: config.wire.clone(),
        target,
        group: subscription.name.clone(),
        reader: Some(reader),
        reading: None,
        read: VecDeque::new(),
        unacknowledged: HashMap::new(),
        receipts: 0,
        session: None,
    })
}

impl RedisSubscriber {
    /// Reads some entries. Cancel-safe.
    async fn fill(&mut self) -> Result<(), Fault> {
        if let Some(reader) = self.reader.take() {
            let room = PREFETCH.saturating_sub(self.unacknowledged.len()).max(1);
            self.reading = Some(Box::pin(reader.read(room)));
        }
        let Some(reading) = &mut self.reading else {
            return Err(nonsense("an earlier read panicked"));
        };
        let (reader, result) = reading.await;
        self.reading = None;
        self.reader = Some(reader);
        if result.is_err() && self.group.is_some() {
            // All of it comes again with the next connection.
            self.read.clear();
            self.unacknowledged.clear();
        }
        self.read.extend(result?);
        Ok(())
    }

    /// A message for an entry.
    fn incoming(&mut self, entry: Entry) -> Incoming {
        self.receipts += 1;
        if self.group.is_some() {
            self.unacknowledged.insert(self.receipts, (entry.stream.clone(), entry.id.clone()));
        }
        let (message, provenance) = self.wire.decode(entry.received(), &NAMES);
        Incoming { message, provenance, receipt: self.receipts, lane: None }
    }

    async fn tell(&mut self, group: &str, stream: &str, id: &str) -> Result<(), Fault> {
        if self.session.as_ref().is_none_or(Session::is_closed) {
            self.session = Some(Session::dial(&self.target).await?);
        }
        let session = self.session.as_ref().ok_or_else(|| nonsense("no connection"))?;
        session.ask(cmd("XACK").arg(stream).arg(group).arg(id)).await.map(|_| ())
    }
}

#[async_trait]
impl Subscriber for RedisSubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        loop {
            if let Some(entry) = self.read.pop_front() {
                return Ok(self.incoming(entry));
            }
            if self.unacknowledged.len() >= PREFETCH {
                // Only an acknowledgement makes room.
                pending::<()>().await;
            }
            if let Err(fault) = self.fill().await {
                return Err(broker_error(&self.target.to_string(), fault));
            }
        }
    }

    /// A listener's messages need no acknowledgement.
    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        let Some(group) = self.group.clone() else { return Ok(()) };
        let Some((stream, id)) = self.unacknowledged.get(&receipt).cloned() else {
            let message = format!(
                "receipt {receipt} is unknown, or of a connection that was lost: its message \
                 comes again"
            );
            return Err(BrokerError { message, source: None });
        };
        let told = timeout(PATIENCE, self.tell(&group, &stream, &id)).await;
        if let Err(fault) = told.unwrap_or(Err(Fault::Late(PATIENCE))) {
            self.session = None;
            return Err(broker_error(&self.target.to_string(), fault));
        }
        self.unacknowledged.remove(&receipt);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::Start;

    use super::*;

    #[tokio::test]
    async fn an_ordered_subscription_is_refused() {
        let ordered = Subscription {
            name: Some("billing".to_owned()),
            topics: vec!["*".parse().unwrap()],
            start: Start::New,
            sharing: Sharing::Ordered,
        };
        let config = Config::new("redis://127.0.0.1:1");
        let refused = subscribe(&config, &ordered).await.err().expect("a refusal");
        assert!(refused.to_string().contains("no ordered subscription"), "{refused}");
    }
}
