//! Receiving: an HTTP server that takes webhooks, checks their signatures, and answers once they are
//! acknowledged.

use std::{collections::HashMap, net::SocketAddr};

use async_trait::async_trait;
use bytes::Bytes;
use hyper::HeaderMap;
use posthaste_core::{BrokerError, Incoming, Sharing, Subscriber, Subscription, TopicPattern};
use posthaste_wire::{Received, Wire};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    Config,
    publish::{NAMES, TOPIC},
    server::{self, Endpoint, PENDING_MAX, Webhook},
};

/// Receives webhooks.
///
/// A sender gets its 2xx answer when the message is acknowledged, 504 when that takes more than 30 s,
/// and none when the subscriber goes away: then it sends the message again.
#[derive(Debug)]
pub struct HttpSubscriber {
    address: SocketAddr,
    wire: Wire,
    topics: Vec<TopicPattern>,
    arriving: mpsc::Receiver<Webhook>,
    open: HashMap<u64, oneshot::Sender<()>>,
    next_receipt: u64,
    /// The server ends with the subscriber.
    _server: AbortOnDropHandle<()>,
}

impl HttpSubscriber {
    /// Where it listens; of interest where the URL said port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Listens where the URL points, which must be an address of this machine. Webhooks have no
/// subscriptions: what is not received is sent again by the sender, so the name and the start of the
/// subscription do not matter; other topics are acknowledged and skipped.
///
/// # Errors
/// When the configuration breaks a rule, the address cannot be listened on, or the subscription is
/// ordered.
pub async fn subscribe(
    config: &Config,
    subscription: &Subscription,
) -> Result<HttpSubscriber, BrokerError> {
    let failed = |message: String| BrokerError { message, source: None };
    if subscription.sharing == Sharing::Ordered {
        return Err(failed(
            "webhooks come in any order and to any receiver: there is no ordered subscription"
                .to_owned(),
        ));
    }
    let url = config.checked().map_err(|invalid| failed(invalid.to_string()))?;
    if url.scheme() != "http" {
        return Err(failed(
            "webhooks can be received by http:// only: let a reverse proxy end TLS".to_owned(),
        ));
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let listener = TcpListener::bind((host, port)).await.map_err(|error| {
        failed(format!("cannot listen on {host}:{port}, where webhooks are sent to: {error}"))
    })?;
    let address = listener.local_addr().map_err(|error| failed(error.to_string()))?;
    let (arrived, arriving) = mpsc::channel(PENDING_MAX);
    let endpoint = Endpoint::new(url.path(), &config.secrets, arrived);
    let server = tokio::spawn(server::serve(listener, endpoint));
    Ok(HttpSubscriber {
        address,
        wire: config.wire.clone(),
        topics: subscription.topics.clone(),
        arriving,
        open: HashMap::new(),
        next_receipt: 0,
        _server: AbortOnDropHandle::new(server),
    })
}

fn received(headers: &HeaderMap, id: String, body: Bytes) -> Received {
    let mut own = Vec::new();
    let (mut topic, mut content_type) = (String::new(), None);
    for (name, value) in headers {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        match name.as_str() {
            TOPIC => topic = decoded(&text),
            "content-type" => content_type = Some(text),
            name if NAMES.reserved.contains(&name) || name.starts_with("webhook-") => {}
            name if name.starts_with("ce-") => own.push((name.to_owned(), decoded(&text))),
            name => own.push((name.to_owned(), text)),
        }
    }
    Received {
        destination: topic,
        headers: own,
        content_type,
        body,
        key: None,
        coordinates: id.clone(),
        id: Some(id),
    }
}

/// A value without its percent-encoding.
fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[async_trait]
impl Subscriber for HttpSubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        loop {
            let Some(Webhook { id, headers, body, handled }) = self.arriving.recv().await else {
                let message = "the server that receives webhooks has ended".to_owned();
                return Err(BrokerError { message, source: None });
            };
            let (message, provenance) = self.wire.decode(received(&headers, id, body), &NAMES);
            if !self.topics.iter().any(|pattern| pattern.matches(&message.topic)) {
                // The sender may have gone; then it comes again and is skipped again.
                let _ = handled.send(());
                continue;
            }
            let receipt = self.next_receipt;
            self.next_receipt += 1;
            self.open.retain(|_, handled| !handled.is_closed());
            self.open.insert(receipt, handled);
            return Ok(Incoming { message, provenance, receipt, lane: None });
        }
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        let handled = self.open.remove(&receipt);
        match handled.map(|handled| handled.send(())) {
            Some(Ok(())) => Ok(()),
            None | Some(Err(())) => Err(BrokerError {
                message: "the sender has given up waiting: the message will come again".to_owned(),
                source: None,
            }),
        }
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
        let config = Config::new("http://127.0.0.1:0/hook", Vec::new());
        let refused = subscribe(&config, &ordered).await.expect_err("a refusal");
        assert!(refused.to_string().contains("no ordered subscription"), "{refused}");
    }
}
