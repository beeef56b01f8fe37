//! Sending.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use futures::future::join_all;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use posthaste_core::{
    Broker, BrokerCapabilities, BrokerError, CallOrder, Delivery, Failure, Finding, Invalid,
    Outcome, TopicPattern,
};
use posthaste_wire::{Call, Names, Outgoing, Part, PerKey, Sender, Style};
use reqwest::{
    Client, Response,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};
use url::Url;

use crate::{Config, connect, examine, outcome, signature};

/// Header names of ours and of HTTP itself.
pub(crate) const NAMES: Names = Names {
    style: Style::Dash,
    reserved: &[
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        TOPIC,
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    ],
    reserved_prefixes: &["webhook-", "proxy-"],
};

/// The header with the message's topic.
pub(crate) const TOPIC: &str = "posthaste-topic";

/// Messages given in one call.
const CALL_MESSAGES_MAX: usize = 256;
/// Longest time a receiver can make us wait by asking.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// Most of an answer that is read, so that its connection can be used again.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// What is not sent with at least this much time left is not sent at all: no answer would come.
const LEFT_MIN: Duration = Duration::from_millis(10);
/// Longest wait for the rest of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// What the CloudEvents binding does not let stand as it is, beside all that is not ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Sends messages as webhooks.
pub struct HttpBroker {
    pub(crate) config: Config,
    pub(crate) url: Url,
    pub(crate) client: Client,
    permits: Semaphore,
    /// Nothing is sent before this: the receiver asked for it.
    wait_until: Mutex<Option<Instant>>,
}

impl HttpBroker {
    /// Opens it; no connection is made yet.
    ///
    /// # Errors
    /// When the configuration breaks a rule, or `ca_file` cannot be read.
    pub fn open(config: Config) -> Result<Self, Invalid> {
        let url = config.checked()?;
        let client = connect::client(&config, &url)?;
        let permits = Semaphore::new(config.connections as usize);
        Ok(Self { config, url, client, permits, wait_until: Mutex::new(None) })
    }

    /// What to say while the receiver still wants to be left alone.
    fn wait(&self) -> Option<Outcome> {
        let wait_until = *self.wait_until.lock().unwrap_or_else(PoisonError::into_inner);
        let left = wait_until?.checked_duration_since(Instant::now())?;
        let words = format!("the receiver asked us to wait, for {:.1} s more", left.as_secs_f32());
        Some(Outcome::Unreachable(Failure::new("throttled", words)))
    }

    /// Leaves the receiver alone for that long; who asked for longer gets that.
    fn wait_for(&self, asked: Duration) {
        let until = Instant::now() + asked.min(WAIT_MAX);
        let mut wait_until = self.wait_until.lock().unwrap_or_else(PoisonError::into_inner);
        *wait_until = (*wait_until).max(Some(until));
    }

    async fn send(&self, part: &Part<'_>, deadline: Instant) -> Outcome {
        let permit = timeout_at(deadline, self.permits.acquire()).await;
        let left = deadline.saturating_duration_since(Instant::now());
        if !matches!(permit, Ok(Ok(_))) || left < LEFT_MIN {
            let words = "all connections were busy until the deadline";
            return Outcome::Unreachable(Failure::new("busy", words));
        }
        // Asked here and not before: others of this call may have been told meanwhile.
        if let Some(outcome) = self.wait() {
            return outcome;
        }
        let id = part.delivery.message.id.to_string();
        let outgoing = &part.outgoing;
        let mut headers = match headers(outgoing) {
            Ok(headers) => headers,
            Err(failure) => return Outcome::Rejected(failure.hopeless()),
        };
        self.sign(&id, &outgoing.body, &mut headers);
        headers.extend(encoded(&part.delivery.message.topic).map(|topic| (TOPIC_NAME, topic)));
        let request = self.client.post(self.url.clone()).headers(headers);
        match request.body(outgoing.body.clone()).timeout(left).send().await {
            Ok(response) => self.answered(response).await,
            Err(error) => outcome::of_error(&error),
        }
    }

    fn sign(&self, id: &str, body: &[u8], headers: &mut HeaderMap) {
        let timestamp = now().as_secs();
        let signature = signature::sign(&self.config.secrets, id, timestamp, body);
        let ours = [
            ("webhook-id", id),
            ("webhook-timestamp", &timestamp.to_string()),
            ("webhook-signature", &signature),
            ("idempotency-key", id),
        ];
        for (name, text) in ours {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        }
    }

    async fn answered(&self, mut response: Response) -> Outcome {
        let outcome = outcome::of_status(response.status().as_u16());
        // A gateway in front of a receiver that is down asks for it with 502 or 504.
        if matches!(outcome, Outcome::Unreachable(_) | Outcome::Unknown(_)) {
            let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
            let asked =
                header("retry-after").and_then(|value| outcome::retry_after(value, header("date")));
            if let Some(asked) = asked {
                self.wait_for(asked);
            }
        }
        // What it says is of no interest, but a connection with an unread answer cannot be reused.
        let rest = async {
            let mut read = 0;
            while let Ok(Some(chunk)) = response.chunk().await {
                read += chunk.len();
                if read > ANSWER_BYTES_MAX {
                    break;
                }
            }
        };
        // Whoever dawdles over it needs a new connection the next time.
        let _ = timeout(ANSWER_TIMEOUT, rest).await;
        outcome
    }
}

const TOPIC_NAME: HeaderName = HeaderName::from_static(TOPIC);

/// The time that receivers compare with theirs.
#[allow(clippy::disallowed_methods, reason = "the receiver's clock is no database's")]
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A value percent-encoded as the CloudEvents binding says.
fn encoded(text: &str) -> Option<HeaderValue> {
    let text: Cow<'_, str> = utf8_percent_encode(text, ENCODED).into();
    HeaderValue::from_str(&text).ok()
}

/// A value that HTTP carries as it is.
fn plain(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) && text.trim() == text;
    if is_plain { HeaderValue::from_str(text).ok() } else { None }
}

/// The headers of a message; an error names the one that HTTP cannot carry as it is.
fn headers(outgoing: &Outgoing<'_>) -> Result<HeaderMap, Failure> {
    const PLAIN: &str = "HTTP carries printable ASCII without spaces at the ends, and nothing else";
    let mut headers = HeaderMap::with_capacity(outgoing.headers.len() + 8);
    for (name, text) in &outgoing.headers {
        let wrong = |what: &str| Failure::new("header", format!("header {name:?}: {what}"));
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| wrong("the name is not one of HTTP"))?;
        let value = if name.starts_with("ce-") { encoded(text) } else { plain(text) };
        let value = value.ok_or_else(|| wrong(PLAIN))?;
        match headers.try_insert(header, value) {
            Ok(None) => {}
            Ok(Some(_)) => {
                return Err(wrong(
                    "given twice: HTTP does not tell upper from lower case in names",
                ));
            }
            Err(_) => return Err(wrong("there are too many")),
        }
    }
    let content_type = plain(outgoing.content_type)
        .ok_or_else(|| Failure::new("header", format!("the content type: {PLAIN}")))?;
    headers.insert(CONTENT_TYPE, content_type);
    Ok(headers)
}

fn check(delivery: &Delivery, outgoing: &Outgoing<'_>) -> Result<(), Failure> {
    let topic = &delivery.message.topic;
    if topic.chars().any(char::is_control) {
        let words = format!("topic {topic:?} holds control characters");
        return Err(Failure::new("topic", words));
    }
    headers(outgoing).map(drop)
}

/// One call of `publish`.
struct Attempt<'a> {
    broker: &'a HttpBroker,
    deadline: Instant,
}

impl Sender for Attempt<'_> {
    type Answer = Outcome;

    async fn send(&mut self, part: &mut [&mut Part<'_>]) -> Vec<Outcome> {
        join_all(part.iter().map(|message| self.broker.send(message, self.deadline))).await
    }
}

#[async_trait]
impl Broker for HttpBroker {
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities {
            call_order: CallOrder::OnePerKey,
            call_messages_max: CALL_MESSAGES_MAX,
        }
    }

    async fn publish(&self, messages: &[Arc<Delivery>], deadline: Duration) -> Vec<Outcome> {
        let deadline = Instant::now() + deadline;
        Call::checked(&self.config.wire, &NAMES, PerKey::One, messages, check)
            .run(Attempt { broker: self, deadline })
            .await
    }

    async fn examine(&self, _: &[TopicPattern]) -> Result<Vec<Finding>, BrokerError> {
        examine::examine(self).await
    }

    async fn close(&self) {
        // Nothing is buffered; idle connections go with the client.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[tokio::test(start_paused = true)]
    async fn the_longest_wait_that_was_asked_for_counts_up_to_an_hour() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let broker = HttpBroker::open(Config::new("https://example.com/", vec![secret])).unwrap();
        assert_eq!(broker.wait(), None);
        broker.wait_for(Duration::from_secs(10));
        broker.wait_for(Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(broker.wait().is_some());
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert_eq!(broker.wait(), None);
        broker.wait_for(Duration::MAX);
        tokio::time::advance(Duration::from_secs(3599)).await;
        assert!(broker.wait().is_some());
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert_eq!(broker.wait(), None);
    }

    #[test]
    fn attributes_are_encoded_as_the_binding_says() {
        let encoded = |text| encoded(text).unwrap().to_str().unwrap().to_owned();
        assert_eq!(encoded("Euro \u{20ac} \u{1f600}"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(encoded("a\"b%c\r\n\u{7f}"), "a%22b%25c%0D%0A%7F");
        assert_eq!(encoded("~!a:/?#[]@"), "~!a:/?#[]@");
    }

    #[test]
    fn other_values_travel_as_they_are_or_not_at_all() {
        for text in ["", "a b", "100%25", "\"'\\;,="] {
            assert_eq!(plain(text).unwrap(), text);
        }
        for text in [" a", "a ", "a\tb", "a\nb", "a\0", "\u{e9}", "\u{7f}"] {
            assert!(plain(text).is_none(), "{text:?}");
        }
    }
}
