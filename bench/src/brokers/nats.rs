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

use super::{Headers, PAYLOAD_BYTES, Subject, TOPIC, WINDOW};

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
        let stream = Self { url: url.to_owned(), context };
        stream.create().await?;
        Ok(stream)
    }

    async fn create(&self) -> Result<()> {
        let config = StreamConfig {
            name: STREAM.to_owned(),
            subjects: vec![TOPIC.to_owned()],
            storage: StorageType::File,
            ..Default::default()
        };
        self.context.create_stream(config).await?;
        Ok(())
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
        let headers = Headers::new(Style::Dash);
        let mut window = FuturesUnordered::new();
        for n in 0..messages {
            if window.len() >= WINDOW
                && let Some(acknowledged) = window.next().await
            {
                let _: jetstream::publish::PublishAck = acknowledged?;
            }
            let id = MessageId::fresh().to_string();
            let mut ours = HeaderMap::new();
            for (name, value) in headers.of(n, &id) {
                ours.insert(name, value.into_owned());
            }
            ours.insert("Nats-Msg-Id", id);
            let sent = self.context.publish_with_headers(TOPIC, ours, payload.clone()).await?;
            window.push(sent.into_future());
        }
        while let Some(acknowledged) = window.next().await {
            acknowledged?;
        }
        Ok(())
    }

    async fn clear(&self) -> Result<()> {
        // Purged, it would still remember the ids.
        self.context.delete_stream(STREAM).await?;
        self.create().await
    }
}
