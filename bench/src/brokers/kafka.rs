//! Kafka: acks=all, idempotent, three partitions.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use futures::{StreamExt, stream::FuturesUnordered};
use posthaste_broker_kafka::{Config, KafkaBroker};
use posthaste_core::{Broker, MessageId};
use posthaste_wire::Style;
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord, Producer},
};

use super::{Headers, PAYLOAD_BYTES, Subject, TOPIC, WINDOW};

/// A topic.
pub(super) struct Topic {
    url: String,
    producer: FutureProducer,
}

impl Topic {
    pub(super) async fn new(url: &str) -> Result<Self> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", url.trim_start_matches("kafka://").trim_end_matches('/'));
        let admin: AdminClient<DefaultClientContext> = config.create()?;
        let topic = NewTopic::new(TOPIC, 3, TopicReplication::Fixed(1));
        for created in admin.create_topics([&topic], &AdminOptions::new()).await? {
            created.map_err(|(topic, code)| anyhow!("cannot create {topic}: {code}"))?;
        }
        let producer = config.set("acks", "all").set("enable.idempotence", "true").create()?;
        Ok(Self { url: url.to_owned(), producer })
    }
}

#[async_trait]
impl Subject for Topic {
    fn name(&self) -> &'static str {
        "Kafka, acks=all, 3 partitions"
    }

    fn broker(&self, _: bool) -> Result<Arc<dyn Broker>> {
        Ok(Arc::new(KafkaBroker::open(Config::new(&self.url))?))
    }

    async fn plain(&self, messages: usize) -> Result<()> {
        let payload = [0xab; PAYLOAD_BYTES];
        let headers = Headers::new(Style::Underscore);
        let mut window = FuturesUnordered::new();
        for n in 0..messages {
            if window.len() >= WINDOW
                && let Some(delivered) = window.next().await
            {
                delivery(delivered)?;
            }
            let id = MessageId::fresh().to_string();
            let mut ours = OwnedHeaders::new();
            for (key, value) in headers.of(n, &id) {
                ours = ours.insert(Header { key, value: Some(&*value) });
            }
            let key = format!("customer-{}", n % 10_000);
            let record = FutureRecord::to(TOPIC).key(&key).payload(&payload).headers(ours);
            window.push(self.producer.send_result(record).map_err(|(error, _)| error)?);
        }
        while let Some(delivered) = window.next().await {
            delivery(delivered)?;
        }
        Ok(())
    }

    async fn clear(&self) -> Result<()> {
        // A log does not slow down by what it holds; only nothing may be on its way.
        self.producer.flush(Duration::from_secs(10))?;
        Ok(())
    }
}

fn delivery<T, E, M>(
    delivered: std::result::Result<std::result::Result<T, (E, M)>, impl Sized>,
) -> Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match delivered {
        Ok(Ok(_)) => Ok(()),
        Ok(Err((error, _))) => Err(error.into()),
        Err(_) => Err(anyhow!("the producer has gone")),
    }
}
