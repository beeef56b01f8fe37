//! A broker that acknowledges everything and keeps nothing: for measuring what everything else
//! costs. Never for production.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Finding, Outcome, TopicPattern,
};

/// Acknowledges everything at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullBroker;

impl NullBroker {
    /// The broker.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Broker for NullBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::Total, call_messages_max: usize::MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], _deadline: Duration) -> Vec<Outcome> {
        vec![Outcome::Acked; messages.len()]
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}
