//! Redis: a stream, append-only file synced every second.

use std::sync::Arc;

use ::redis::{AsyncCommands, Client, aio::MultiplexedConnection, cmd};
use anyhow::Result;
use async_trait::async_trait;
use futures::{StreamExt, stream::FuturesUnordered};
use posthaste_broker_redis::{Config, RedisBroker};
use posthaste_core::{Broker, MessageId};
use posthaste_wire::Style;

use super::{Headers, PAYLOAD_BYTES, Subject, TOPIC, WINDOW};

/// A stream of the topic's name.
pub(super) struct Stream {
    url: String,
    connection: MultiplexedConnection,
}

impl Stream {
    pub(super) async fn new(url: &str) -> Result<Self> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { url: url.to_owned(), connection })
    }
}

#[async_trait]
impl Subject for Stream {
    fn name(&self) -> &'static str {
        "Redis stream, AOF every second"
    }

    fn broker(&self, _: bool) -> Result<Arc<dyn Broker>> {
        Ok(Arc::new(RedisBroker::open(Config::new(&self.url))?))
    }

    async fn plain(&self, messages: usize) -> Result<()> {
        let payload = vec![0xab_u8; PAYLOAD_BYTES];
        let headers = Headers::new(Style::Underscore);
        let send = |n| {
            let mut command = cmd("XADD");
            command.arg(TOPIC).arg("*");
            let id = MessageId::fresh().to_string();
            for (name, value) in headers.of(n, &id) {
                command.arg(name).arg(&*value);
            }
            command.arg("content-type").arg("application/json").arg("data").arg(&payload[..]);
            let mut connection = self.connection.clone();
            async move { command.query_async::<String>(&mut connection).await }
        };
        let mut window = FuturesUnordered::new();
        for n in 0..messages {
            if window.len() >= WINDOW
                && let Some(added) = window.next().await
            {
                added?;
            }
            window.push(send(n));
        }
        while let Some(added) = window.next().await {
            added?;
        }
        Ok(())
    }

    async fn clear(&self) -> Result<()> {
        let () = self.connection.clone().del(TOPIC).await?;
        Ok(())
    }
}
