//! NATS: a stream on file, every publish acknowledged by it.

use std::sync::Arc;

use anyhow::Result;
use async_nats::{
    HeaderMap,
    jetstream::{
        self, Context,
        context::ContextBuilder,
        stream::{Config as StreamConfig, StorageType},
    },
};
use async_trait::async_trait;
use futures::{StreamExt, stream::FuturesUnordered};
use posthaste_broker_nats::{Config, NatsBroker};
use posthaste_core::{Broker, MessageId};
use posthaste_wire::Style;

use super::{PAYLOAD_BYTES, Subject, TOPIC, WINDOW, headers};

const STREAM: &str = "ORDERS";

/// A stream that holds the topic.
pub(super) struct Stream {
    url: String,
    context: Context,
}

impl Stream {
    pub(super) async fn new(url: &str) -> Result<Self> {
        let client = async_nats::connect(url).await?;
        let context = ContextBuilder::new().max_ack_inflight(WINDOW).build(client);
        context
            .create_stream(StreamConfig {
                name: STREAM.to_owned(),
                subjects: vec![TOPIC.to_owned()],
                storage: StorageType::File,
                ..Default::default()
            })
            .await?;
        Ok(Self { url: url.to_owned(), context })
    }
}

#[async_trait]
impl Subject for Stream {
    fn name(&self) -> &'static str {
        "NATS JetStream, file"
    }

    fn broker(&self, _: bool) -> Result<Arc<dyn Broker>> {
        Ok(Arc::new(NatsBroker::open(Config::new(&self.url))?))
    }

    async fn plain(&self, messages: usize) -> Result<()> {
        let payload = bytes::Bytes::from_static(&[0xab; PAYLOAD_BYTES]);
        let mut ours = HeaderMap::new();
        for (name, value) in headers(Style::Dash) {
            ours.insert(name, value);
        }
        let mut window = FuturesUnordered::new();
        for _ in 0..messages {
            if window.len() >= WINDOW
                && let Some(acknowledged) = window.next().await
            {
                let _: jetstream::publish::PublishAck = acknowledged?;
            }
            let mut ours = ours.clone();
            ours.insert("Nats-Msg-Id", MessageId::fresh().to_string());
            let sent = self.context.publish_with_headers(TOPIC, ours, payload.clone()).await?;
            window.push(sent.into_future());
        }
        while let Some(acknowledged) = window.next().await {
            acknowledged?;
        }
        Ok(())
    }

    async fn clear(&self) -> Result<()> {
        self.context.get_stream(STREAM).await?.purge().await?;
        Ok(())
    }
}
