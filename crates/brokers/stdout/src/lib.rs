//! A broker that writes one JSON object a line to standard output.
//!
//! "Delivered" means that the operating system took the line: whoever reads the pipe has it. A pipe
//! that closes in the middle leaves it unknown which lines were read: they are sent again. Payloads that are not UTF-8
//! travel as base64 in `payload_base64`.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Failure, Finding, Outcome,
    TopicPattern,
};
use serde::Serialize;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Mutex,
    time::timeout,
};

/// Most messages written by one system call.
const CALL_MESSAGES_MAX: usize = 256;

/// Writes messages as lines of JSON.
pub struct StdoutBroker {
    /// Locked for a whole call, so that lines of one call stay together and in order.
    output: Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
}

impl StdoutBroker {
    /// Writes to standard output.
    #[must_use]
    pub fn new() -> Self {
        Self::with_output(tokio::io::stdout())
    }

    /// Writes to something else.
    pub fn with_output(output: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { output: Mutex::new(Box::new(output)) }
    }

    async fn write(&self, lines: &[u8]) -> io::Result<()> {
        let mut output = self.output.lock().await;
        output.write_all(lines).await?;
        output.flush().await
    }
}

impl Default for StdoutBroker {
    fn default() -> Self {
        Self::new()
    }
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    id: String,
    seq: i64,
    topic: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    event_type: Option<&'a str>,
    content_type: &'a str,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    headers: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    attempt: u32,
}

fn line(delivery: &Delivery) -> Vec<u8> {
    let message = &delivery.message;
    let text = std::str::from_utf8(&message.payload).ok();
    let line = Line {
        id: message.id.to_string(),
        seq: delivery.seq,
        topic: &message.topic,
        key: message.key.as_deref(),
        event_type: message.event_type.as_deref(),
        content_type: &message.content_type,
        headers: message.headers.iter().map(|(n, v)| (n.clone(), v.as_str().into())).collect(),
        payload: text,
        payload_base64: text.is_none().then(|| STANDARD.encode(&message.payload)),
        attempt: delivery.attempt,
    };
    let mut bytes = serde_json::to_vec(&line).expect("strings and numbers always serialise");
    bytes.push(b'\n');
    bytes
}

#[async_trait]
impl Broker for StdoutBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities { call_order: CallOrder::Total, call_messages_max: CALL_MESSAGES_MAX }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let lines: Vec<u8> = messages.iter().flat_map(|delivery| line(delivery)).collect();
        let outcome = match timeout(deadline, self.write(&lines)).await {
            Ok(Ok(())) => Outcome::Acked,
            // Part of the lines may have gone out before the error.
            Ok(Err(error)) => Outcome::Unknown(Failure::new("output", error.to_string())),
            Err(_) => Outcome::Unknown(Failure::new("timeout", "nobody reads standard output")),
        };
        vec![outcome; messages.len()]
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {
        // Nothing is buffered: every publish flushes.
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::Message;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn delivery(message: Message) -> Arc<Delivery> {
        Arc::new(Delivery {
            seq: 7,
            message,
            enqueued_at: std::time::UNIX_EPOCH,
            attempt: 1,
            redriven: 0,
            floor: None,
        })
    }

    #[tokio::test]
    async fn text_and_binary_payloads_are_one_line_each() {
        let (near, mut far) = tokio::io::duplex(4096);
        let broker = StdoutBroker::with_output(near);
        let text = Message::from_bytes("orders", Some("42"), "{\"a\":\"line\\nbreak\"}")
            .header("tenant", "acme");
        let binary = Message::from_bytes("blobs", None, vec![0, 255]);
        let outcomes =
            broker.publish(&[delivery(text), delivery(binary)], Duration::from_secs(5)).await;
        assert_eq!(outcomes, vec![Outcome::Acked, Outcome::Acked]);
        drop(broker);
        let mut output = String::new();
        far.read_to_string(&mut output).await.unwrap();
        let lines: Vec<serde_json::Value> =
            output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["key"], "42");
        assert_eq!(lines[0]["payload"], "{\"a\":\"line\\nbreak\"}");
        assert_eq!(lines[0]["headers"]["tenant"], "acme");
        assert_eq!(lines[1]["payload_base64"], "AP8=");
        assert!(lines[1].get("key").is_none());
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_is_not_an_acknowledgement() {
        let (near, far) = tokio::io::duplex(64);
        drop(far);
        let broker = StdoutBroker::with_output(near);
        let outcomes = broker
            .publish(&[delivery(Message::from_bytes("t", None, "x"))], Duration::from_secs(5))
            .await;
        assert!(matches!(outcomes[0], Outcome::Unknown(_)));
    }
}
