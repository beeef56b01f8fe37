//! MQTT 5: QoS 1, to a session that is not connected, so that the server has to keep everything.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use futures::{StreamExt, stream::FuturesUnordered};
use posthaste_broker_mqtt::{Config, MqttBroker, Ordering, subscribe};
use posthaste_core::{Broker, Delivery, Message, Outcome, Sharing, Start, Subscription};

use super::{PAYLOAD_BYTES, Subject, TOPIC, WINDOW};

/// The client of this adapter is its own, so the plain loop is the adapter without relay and
/// database, given calls that are as large as it likes.
pub(super) struct Session {
    url: String,
}

impl Session {
    pub(super) async fn new(url: &str) -> Result<Self> {
        Ok(Self { url: url.to_owned() })
    }
}

#[async_trait]
impl Subject for Session {
    fn name(&self) -> &'static str {
        "MQTT 5 (Mosquitto), QoS 1"
    }

    fn broker(&self, is_hot: bool) -> Result<Arc<dyn Broker>> {
        let ordering = if is_hot { Ordering::Pipelined } else { Ordering::Strict };
        Ok(Arc::new(MqttBroker::open(Config { ordering, ..Config::new(&self.url) })?))
    }

    async fn plain(&self, messages: usize) -> Result<()> {
        let broker = self.broker(false)?;
        let call_messages = broker.capabilities().call_messages_max.min(WINDOW);
        let message = Message::from_bytes(TOPIC, None, vec![0xab; PAYLOAD_BYTES]);
        let delivery = Delivery {
            seq: 1,
            message,
            enqueued_at: UNIX_EPOCH,
            attempt: 1,
            redriven: 0,
            floor: None,
        };
        let delivery = Arc::new(delivery);
        let call: Vec<_> = (0..call_messages).map(|_| Arc::clone(&delivery)).collect();
        let mut window = FuturesUnordered::new();
        let mut left = messages;
        while left > 0 || !window.is_empty() {
            if left > 0 && window.len() < WINDOW / call_messages {
                let call = &call[..left.min(call_messages)];
                left -= call.len();
                window.push(broker.publish(call, Duration::from_secs(30)));
            } else if let Some(outcomes) = window.next().await {
                let is_acked = outcomes.iter().all(|outcome| *outcome == Outcome::Acked);
                ensure!(is_acked, "Mosquitto did not take a message: {:?}", outcomes[0]);
            }
        }
        broker.close().await;
        Ok(())
    }

    async fn clear(&self) -> Result<()> {
        // A name that comes back as a passing one forgets what was kept for it: make it new.
        let subscription = Subscription {
            name: Some("bench".to_owned()),
            topics: vec![TOPIC.parse()?],
            start: Start::New,
            sharing: Sharing::Competing,
        };
        drop(subscribe(&Config::new(&self.url), &subscription).await?);
        Ok(())
    }
}
