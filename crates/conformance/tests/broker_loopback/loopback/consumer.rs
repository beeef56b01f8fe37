//! The subscriber.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_core::{
    BrokerError, Incoming, MessageId, Start, Subscriber, Subscription, TopicPattern,
};
use posthaste_wire::{Names, Received, Wire};

use super::{
    Flaw, Loopback, names,
    server::{Epoch, Record, Server, Taken},
};

pub(super) struct Consumer {
    server: Arc<Server>,
    wire: Wire,
    names: Names,
    flaw: Flaw,
    name: String,
    is_listener: bool,
    number: u64,
    connection: Option<Epoch>,
    was_connected: bool,
}

impl Consumer {
    pub(super) fn new(
        server: Arc<Server>,
        wire: Wire,
        subscription: &Subscription,
        like: Loopback,
    ) -> Self {
        let flaw = like.flaw;
        let mut number = MessageId::fresh().0.as_u64_pair();
        number.0 ^= number.1;
        let own = format!("listener-{}", number.0);
        let name = match &subscription.name {
            None if flaw == Flaw::ListenersShare => "listeners".to_owned(),
            None => own,
            Some(name) if flaw == Flaw::NamesAreNotShared => format!("{name}-{own}"),
            Some(name) => name.clone(),
        };
        let is_from_the_beginning = match subscription.start {
            Start::Beginning => flaw != Flaw::BeginningIsNew,
            Start::New => flaw == Flaw::NewIsBeginning,
        };
        let all = || "*".parse::<TopicPattern>().expect("a legal pattern");
        let patterns = subscription.topics.iter().map(|pattern| match flaw {
            Flaw::IgnoresPatterns => all(),
            _ => wire.destination.pattern(pattern),
        });
        server.subscribe(&name, patterns.collect(), is_from_the_beginning);
        let is_listener = subscription.name.is_none() && flaw != Flaw::ListenersShare;
        let number = number.0;
        Self {
            server,
            wire,
            names: names(like.style),
            flaw,
            name,
            is_listener,
            number,
            connection: None,
            was_connected: false,
        }
    }

    fn next(&mut self) -> Result<Option<Incoming>, BrokerError> {
        let down = || BrokerError { message: "the connection broke".to_owned(), source: None };
        let connection = match self.connection {
            Some(connection) => connection,
            None if self.was_connected && self.flaw == Flaw::SubscriberStaysBroken => {
                return Err(down());
            }
            None => *self.connection.insert(self.server.attach().map_err(|_| down())?),
        };
        self.was_connected = true;
        match self.server.take(&self.name, self.number, connection) {
            Taken::Message(index, record) => Ok(Some(self.decode(index, record))),
            Taken::Nothing => Ok(None),
            Taken::Gone => {
                self.connection = None;
                self.server.leave(&self.name, self.number, false);
                Err(down())
            }
        }
    }

    fn decode(&self, index: usize, record: Record) -> Incoming {
        let coordinates = match self.flaw {
            Flaw::DerivedIdsChange => MessageId::fresh().to_string(),
            _ => index.to_string(),
        };
        let mut headers = record.headers;
        if self.flaw == Flaw::DerivedIdsChange {
            headers.retain(|(name, _)| name != posthaste_wire::RAW_ID);
        }
        let received = Received {
            destination: record.destination,
            headers,
            content_type: Some(record.content_type),
            body: record.body,
            coordinates,
            ..Received::default()
        };
        let (message, provenance) = self.wire.decode(received, &self.names);
        Incoming { message, provenance, receipt: index as u64, lane: None }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let is_forgotten = self.is_listener || self.flaw == Flaw::NamesAreForgotten;
        self.server.leave(&self.name, self.number, is_forgotten);
    }
}

#[async_trait]
impl Subscriber for Consumer {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        loop {
            let mut changes = self.server.changes();
            if let Some(incoming) = self.next()? {
                if self.flaw == Flaw::TakesThenWaits {
                    tokio::task::yield_now().await;
                }
                return Ok(incoming);
            }
            let _ = changes.changed().await;
        }
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        let index = usize::try_from(receipt).expect("an index of the log");
        self.server.acknowledge(&self.name, index);
        Ok(())
    }
}
