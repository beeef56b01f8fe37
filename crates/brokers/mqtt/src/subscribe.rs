//! Receiving. A named subscription is a session that the server keeps; a listener's ends with it.

use std::{collections::VecDeque, time::Duration};

use async_trait::async_trait;
use bytes::BytesMut;
use mqtt5_protocol::{
    PropertyId, PropertyValue, QoS,
    packet::{
        publish::PublishPacket,
        subscribe::{RetainHandling, SubscribePacket, SubscriptionOptions, TopicFilter},
    },
};
use posthaste_core::{
    BrokerError, Incoming, Sharing, Start, Subscriber, Subscription, TopicPattern,
};
use posthaste_wire::{Received, Wire};
use tokio::{sync::mpsc, time::timeout};
use uuid::Uuid;

use crate::{
    Config,
    config::{Target, fresh_client_id},
    connect::{Introduction, dial},
    outcome::{Trouble, subscribed},
    packet::{correlated_id, encode_puback, is_text, topic_problem},
    publish::NAMES,
    session::{Answer, Session},
};

/// Most unacknowledged messages.
const UNACKNOWLEDGED_MAX: u16 = 256;
/// How long the server keeps a named subscription that nobody uses: a week.
const KEPT_SECONDS: u32 = 7 * 24 * 3600;
/// Largest packet we take: 8 MiB in base64, and what goes with it.
const PACKET_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// How much is taken in while the answer to a subscription is awaited.
const EARLY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long connecting and subscribing, or telling the server, may take.
const TIME: Duration = Duration::from_secs(10);

/// Receives from an MQTT 5 server.
pub struct MqttSubscriber {
    target: Target,
    wire: Wire,
    introduction: Introduction,
    filters: Vec<String>,
    /// What is wanted of what the filters let through.
    patterns: Vec<TopicPattern>,
    start: Start,
    sharing: Sharing,
    /// The last receipt given.
    receipt: u64,
    /// `None` after it failed, until the next `receive`.
    live: Option<Live>,
}

/// A connection and what came over it.
struct Live {
    session: Session,
    incoming: mpsc::Receiver<PublishPacket>,
    /// What was taken out of `incoming` while something else was awaited: it comes first.
    early: VecDeque<PublishPacket>,
    /// Lower receipts came over earlier connections.
    first_receipt: u64,
    /// In the order of arrival, which is the order that acknowledgements must have.
    unacknowledged: VecDeque<Unacknowledged>,
}

struct Unacknowledged {
    receipt: u64,
    id: u16,
    is_handled: bool,
}

/// Subscribes; when this returns, the server has confirmed it.
///
/// A name is the identifier of one client, whose messages the server keeps for a week while it is
/// away: a second subscriber of that name takes the place of the first. So what it receives is in
/// order anyway, by topic as the standard says, and begins with what was not acknowledged.
///
/// # Errors
/// When the configuration is wrong, a topic cannot be subscribed to, or the server cannot be used.
pub async fn subscribe(
    config: &Config,
    subscription: &Subscription,
) -> Result<MqttSubscriber, BrokerError> {
    let wrong = |message: String| BrokerError { message, source: None };
    let target = config.target().map_err(|invalid| wrong(invalid.to_string()))?;
    let destination = &config.wire.destination;
    let patterns: Vec<_> = subscription.topics.iter().map(|t| destination.pattern(t)).collect();
    let filters = filters(&patterns).map_err(wrong)?;
    let client_id = match &subscription.name {
        Some(name) if name.is_empty() || !is_text(name) => {
            return Err(wrong(format!("{name:?} cannot be the name of a client")));
        }
        Some(name) => name.clone(),
        None => fresh_client_id("posthaste-listener"),
    };
    let is_passing = subscription.name.is_none();
    let mut subscriber = MqttSubscriber {
        target,
        wire: config.wire.clone(),
        introduction: Introduction {
            client_id,
            is_clean_start: is_passing,
            kept_seconds: if is_passing { 0 } else { KEPT_SECONDS },
            receive_max: UNACKNOWLEDGED_MAX,
            packet_bytes_max: PACKET_BYTES_MAX,
        },
        filters,
        patterns,
        start: subscription.start,
        sharing: subscription.sharing,
        receipt: 0,
        live: None,
    };
    subscriber.live = Some(subscriber.connect().await?);
    Ok(subscriber)
}

impl MqttSubscriber {
    fn place(&self) -> String {
        format!("mqtt server {}:{}", self.target.host, self.target.port)
    }

    async fn connect(&self) -> Result<Live, BrokerError> {
        let place = self.place();
        let connected = async {
            let (sender, incoming) = mpsc::channel(UNACKNOWLEDGED_MAX.into());
            let session = dial(&self.target, &self.introduction, sender).await?;
            let mut live = Live {
                session,
                incoming,
                early: VecDeque::new(),
                first_receipt: self.receipt + 1,
                unacknowledged: VecDeque::new(),
            };
            let answer = live.subscribe(self.subscribe_packet()).await?;
            Ok((live, answer))
        };
        let (live, answer) = in_time(connected).await.map_err(|trouble| trouble.error(&place))?;
        if let Answer::Suback { codes, text } = answer {
            subscribed(&codes, text).map_err(|failure| BrokerError {
                message: format!("{place}: {failure}"),
                source: None,
            })?;
        }
        Ok(live)
    }

    fn subscribe_packet(&self) -> SubscribePacket {
        // Retained messages are what a server still has.
        let retain_handling = match self.start {
            Start::Beginning => RetainHandling::SendAtSubscribeIfNew,
            Start::New => RetainHandling::DoNotSend,
        };
        let mut options = SubscriptionOptions::new(QoS::AtLeastOnce);
        options.retain_handling = retain_handling;
        let mut packet = SubscribePacket::new(0);
        packet.filters =
            self.filters.iter().map(|f| TopicFilter::with_options(f, options)).collect();
        packet
    }

    fn decode(&mut self, packet: PublishPacket) -> Incoming {
        let properties = &packet.properties;
        let pairs = properties.get_all(PropertyId::UserProperty).unwrap_or_default();
        let headers = pairs.iter().filter_map(|pair| match pair {
            PropertyValue::Utf8StringPair(name, value) => Some((name.clone(), value.clone())),
            _ => None,
        });
        let is_ordered = self.sharing == Sharing::Ordered;
        let client_id = &self.introduction.client_id;
        let lane = is_ordered.then(|| format!("{client_id}/{}", packet.topic_name).into());
        let received = Received {
            headers: headers.collect(),
            content_type: properties.get_content_type(),
            destination: packet.topic_name,
            body: packet.payload,
            key: None,
            id: correlated_id(properties),
            // Nothing names a foreign copy for good, for packet identifiers are used again: better
            // a new id every time than one id for two messages.
            coordinates: Uuid::new_v4().to_string(),
        };
        let (message, provenance) = self.wire.decode(received, &NAMES);
        Incoming { message, provenance, receipt: self.receipt, lane }
    }

    /// Gives up the connection, if there is one.
    fn give_up(&mut self, trouble: &Trouble) -> BrokerError {
        self.live = None;
        trouble.error(&self.place())
    }
}

#[async_trait]
impl Subscriber for MqttSubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        if self.live.is_none() {
            self.live = Some(self.connect().await?);
        }
        loop {
            let Some(live) = &mut self.live else {
                return Err(self.give_up(&Trouble::Closed));
            };
            let Some(packet) = live.next().await else {
                // What is left of that connection cannot be acknowledged and comes again.
                let trouble = live.session.trouble();
                return Err(self.give_up(&trouble));
            };
            self.receipt += 1;
            let is_wanted = self.patterns.iter().any(|p| p.matches(&packet.topic_name));
            if let Some(id) = packet.packet_id {
                let (receipt, is_handled) = (self.receipt, !is_wanted);
                live.unacknowledged.push_back(Unacknowledged { receipt, id, is_handled });
            }
            if is_wanted {
                return Ok(self.decode(packet));
            }
            if let Err(trouble) = live.acknowledge_handled().await {
                return Err(self.give_up(&trouble));
            }
        }
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        let place = self.place();
        let gone = |what: &str| BrokerError {
            message: format!("{place}: {what}; the message will come again"),
            source: None,
        };
        let Some(live) = &mut self.live else {
            return Err(gone("the connection it came over is gone"));
        };
        if let Ok(at) = live.unacknowledged.binary_search_by_key(&receipt, |u| u.receipt) {
            live.unacknowledged[at].is_handled = true;
        } else if receipt < live.first_receipt {
            return Err(gone("it came over an earlier connection"));
        }
        let told = live.tell().await;
        told.map_err(|trouble| self.give_up(&trouble))
    }
}

impl Live {
    /// Subscribes. A session that was kept sends what it has before the answer, and Mosquitto more
    /// of it than we said we would take.
    async fn subscribe(&mut self, packet: SubscribePacket) -> Result<Answer, Trouble> {
        let subscribed = self.session.subscribe(packet);
        tokio::pin!(subscribed);
        let mut bytes = 0;
        loop {
            tokio::select! {
                answer = &mut subscribed => return answer,
                Some(packet) = self.incoming.recv(), if bytes < EARLY_BYTES_MAX => {
                    bytes += packet.payload.len() + packet.topic_name.len();
                    self.early.push_back(packet);
                }
            }
        }
    }

    /// The next message; `None` once the connection has ended.
    async fn next(&mut self) -> Option<PublishPacket> {
        if self.unacknowledged.len() >= UNACKNOWLEDGED_MAX.into() {
            // There is nothing more to be had before something is acknowledged.
            self.session.ended().await;
        }
        let packet = match self.early.pop_front() {
            Some(packet) => Some(packet),
            None => self.incoming.recv().await,
        };
        packet.filter(|_| !self.session.has_ended())
    }

    /// Acknowledges, and makes sure of it while there is nothing else to do: acknowledgements that
    /// the server has not read are lost when another takes over the name. With more messages at
    /// hand a later one vouches for all before it.
    async fn tell(&mut self) -> Result<(), Trouble> {
        self.acknowledge_handled().await?;
        if !self.early.is_empty() || !self.incoming.is_empty() {
            return Ok(());
        }
        let ping = in_time(self.session.ping()).await?;
        tokio::select! {
            confirmed = in_time(self.session.pong(ping)) => confirmed,
            // The answer is behind it, and nothing is read while nobody makes room.
            Some(packet) = self.incoming.recv() => {
                self.early.push_back(packet);
                Ok(())
            }
        }
    }

    /// Acknowledges what is handled, up to the first message that is not: the standard wants the
    /// order of arrival.
    async fn acknowledge_handled(&mut self) -> Result<(), Trouble> {
        let mut buffer = BytesMut::new();
        let handled = self.unacknowledged.iter().take_while(|message| message.is_handled);
        let count = handled.inspect(|message| encode_puback(message.id, &mut buffer)).count();
        if count == 0 {
            return Ok(());
        }
        in_time(self.session.write(&buffer)).await?;
        self.unacknowledged.drain(..count);
        Ok(())
    }
}

async fn in_time<T>(told: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    timeout(TIME, told).await.unwrap_or(Err(Trouble::Timeout("answer")))
}

/// The narrowest filters that let everything through which matches, none twice.
fn filters(patterns: &[TopicPattern]) -> Result<Vec<String>, String> {
    let mut filters: Vec<String> = Vec::new();
    for pattern in patterns {
        let text = pattern.as_str();
        if let Some(problem) = topic_problem(text) {
            return Err(format!("topic {text:?} cannot be subscribed to: it {problem}"));
        }
        filters.push(match text.split_once('*') {
            None => text.to_owned(),
            // `#` stands for whole levels, at the end only.
            Some((head, _)) => match head.rsplit_once('/') {
                Some((levels, _)) => format!("{levels}/#"),
                None => "#".to_owned(),
            },
        });
    }
    // A server may send a message once for each filter that matches.
    filters.sort();
    filters.dedup();
    let all = filters.clone();
    filters.retain(|filter| !all.iter().any(|other| other != filter && covers(other, filter)));
    if filters.is_empty() {
        return Err("a subscription needs at least one topic".to_owned());
    }
    Ok(filters)
}

fn covers(wide: &str, narrow: &str) -> bool {
    let Some(levels) = wide.strip_suffix('#') else { return false };
    // `a/#` also stands for `a` itself.
    narrow.starts_with(levels) || Some(narrow) == levels.strip_suffix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(patterns: &[&str]) -> Result<Vec<String>, String> {
        let patterns: Vec<_> = patterns.iter().map(|text| text.parse().unwrap()).collect();
        filters(&patterns)
    }

    #[test]
    fn filters_are_as_narrow_as_levels_allow() {
        for (pattern, filter) in [
            ("orders", "orders"),
            ("orders/eu", "orders/eu"),
            ("orders/*", "orders/#"),
            ("orders/e*/x", "orders/#"),
            ("/*", "/#"),
            ("a/b/c*", "a/b/#"),
            ("orders.*", "#"),
            ("*", "#"),
            ("*/x", "#"),
        ] {
            assert_eq!(of(&[pattern]).unwrap(), [filter], "{pattern}");
        }
    }

    #[test]
    fn no_filter_is_within_another() {
        assert_eq!(of(&["a/b", "a/*", "a", "b", "b"]).unwrap(), ["a/#", "b"]);
        assert_eq!(of(&["x", "*"]).unwrap(), ["#"]);
        assert_eq!(of(&["ab/*", "a/*"]).unwrap(), ["a/#", "ab/#"]);
    }

    #[test]
    fn what_no_topic_can_match_is_refused() {
        for pattern in ["a/+", "a#", "$SYS/*", "+/*"] {
            assert!(of(&[pattern]).is_err(), "{pattern}");
        }
        assert!(of(&[]).is_err());
    }
}
