//! Headers and names: odd but legal ones arrive as they were, illegal ones are refused before
//! anything is sent, and none ever becomes something else.

use std::sync::Arc;

use posthaste_core::{Broker, BrokerError, Delivery, Failure, HEADERS_BYTES_MAX, Message, Outcome};

use super::{
    case::cases,
    inbox::Inbox,
    kit::{CANARY, DEADLINE, Kit, call},
    message::{check_body, headers_of},
};

cases! { "header";
    [WireForm]: [
        odd_ones_arrive_unchanged_or_are_refused_as_declared,
        many_large_ones_arrive_unchanged_or_are_refused,
        illegal_ones_are_refused_by_name,
        illegal_topics_are_refused_by_name,
        line_breaks_never_become_headers,
    ],
}

/// Odd headers: label, name, value. Each must arrive unchanged, or be refused where
/// [`Traits::refused_odd_headers`](super::Traits::refused_odd_headers) has its label.
pub const ODD_HEADERS: &[(&str, &str, &str)] = &[
    ("empty value", "empty", ""),
    ("unicode value", "greeting", "Grüße, 世界 🚚"),
    ("spaces at the ends", "padded", "  in the middle  "),
    ("percent sign", "percent", "100%25 %zz"),
    ("quotes", "quoted", "a \"b\" \\ 'c'; d=e, f"),
    ("upper case name", "Tenant-Id", "acme"),
    ("underscored name", "tenant_id", "acme"),
    ("dotted name", "tenant.id", "acme"),
    ("name of one letter", "x", "1"),
    ("spaced name", "tenant id", "acme"),
    ("colon in the name", "tenant:id", "acme"),
    ("unicode name", "mandät", "acme"),
];

/// A place to try one message after the other.
struct Trial {
    kit: Kit,
    topic: String,
    broker: Arc<dyn Broker>,
    inbox: Inbox,
}

impl Trial {
    async fn new(kit: Kit) -> Self {
        let (topic, broker) = (kit.topic().await, kit.broker().await);
        let inbox = kit.inbox(&[&topic]).await;
        Self { kit, topic, broker, inbox }
    }

    fn message(&self) -> Message {
        Message::from_bytes(&*self.topic, Some("k"), CANARY)
    }

    /// Publishes one message; gives the failure if it was rejected, and checks that it arrives
    /// unchanged if not.
    async fn publish(&self, message: Message) -> Result<(), Failure> {
        let delivery = self.kit.delivery(message);
        let before = self.inbox.ids().len();
        let mut outcomes =
            call(self.broker.as_ref(), std::slice::from_ref(&delivery), DEADLINE).await;
        match outcomes.pop() {
            Some(Outcome::Acked) => {}
            Some(Outcome::Rejected(failure)) => return Err(failure),
            other => panic!("{:?} is taken or rejected, not {other:?}", delivery.message),
        }
        let arrived = self.inbox.until_count("what was acknowledged", before + 1).await;
        let incoming = &arrived[before];
        assert_eq!(incoming.message.id, delivery.message.id, "nothing else arrives");
        if self.kit.bed.traits().folds_header_names {
            let (mut incoming, mut delivery) = (incoming.clone(), Delivery::clone(&delivery));
            fold_header_names(&mut incoming.message);
            fold_header_names(&mut delivery.message);
            check_body(&incoming, &delivery);
        } else {
            check_body(incoming, &delivery);
        }
        assert_eq!(incoming.message.key, delivery.message.key);
        Ok(())
    }

    /// Checks that nothing of what was rejected has arrived.
    async fn end(&self, acked: usize) {
        self.kit.fence(self.broker.as_ref(), &self.inbox, &self.topic, "k").await;
        assert_eq!(self.inbox.ids().len(), acked + 1, "what was rejected does not arrive");
    }
}

async fn odd_ones_arrive_unchanged_or_are_refused_as_declared(kit: Kit) -> Result<(), BrokerError> {
    let refused = kit.bed.traits().refused_odd_headers;
    for label in &refused {
        let is_known = ODD_HEADERS.iter().any(|(known, ..)| known == label);
        assert!(is_known, "no odd header has the label {label:?}");
    }
    let trial = Trial::new(kit).await;
    let mut acked = 0;
    for (label, name, value) in ODD_HEADERS {
        let message = trial.message().header(*name, *value).header("x-beside", "stays");
        match trial.publish(message).await {
            Ok(()) => {
                assert!(!refused.contains(label), "{label}: declared as refused, but taken");
                acked += 1;
            }
            Err(failure) => {
                assert!(refused.contains(label), "{label}: refused ({failure}), not declared so");
                check_names(&failure, "header", name);
            }
        }
    }
    trial.end(acked).await;
    Ok(())
}

fn fold_header_names(message: &mut Message) {
    for (name, _) in &mut message.headers {
        name.make_ascii_lowercase();
    }
}

/// The failure says what it is about, and names it.
fn check_names(failure: &Failure, class: &str, name: &str) {
    assert_eq!(failure.class, class, "class of {failure}");
    assert!(failure.is_hopeless, "no later attempt can help: {failure}");
    // A long one may be shortened, an odd one escaped.
    let start: String = name.chars().take(10).collect();
    let escaped: String = start.escape_debug().collect();
    let default: String = start.escape_default().collect();
    let is_named = [start, escaped, default].iter().any(|text| failure.detail.contains(text));
    assert!(is_named, "a failure names what is wrong, {name:?}: {failure}");
}

async fn many_large_ones_arrive_unchanged_or_are_refused(kit: Kit) -> Result<(), BrokerError> {
    let trial = Trial::new(kit).await;
    let mut acked = 0;
    for (count, total) in [(100, 4 * 1024), (4, HEADERS_BYTES_MAX), (500, HEADERS_BYTES_MAX)] {
        let mut message = trial.message();
        for n in 0..count {
            let name = format!("x-{n:03}");
            let value = "v".repeat(total / count - name.len());
            message = message.header(name, value);
        }
        match trial.publish(message).await {
            Ok(()) => acked += 1,
            Err(failure) => {
                assert!(total > 4 * 1024, "4 KiB of headers are taken by all: {failure}");
                let is_apt = ["header", "too-large"].contains(&failure.class);
                assert!(is_apt, "the class is `header` or `too-large`: {failure}");
                assert!(failure.is_hopeless, "no later attempt can help: {failure}");
            }
        }
    }
    trial.end(acked).await;
    Ok(())
}

async fn illegal_ones_are_refused_by_name(kit: Kit) -> Result<(), BrokerError> {
    let illegal = kit.bed.traits().illegal_headers;
    let trial = Trial::new(kit).await;
    for (name, value) in illegal {
        let failure = trial.publish(trial.message().header(&name, value)).await.err();
        let failure = failure.unwrap_or_else(|| panic!("header {name:?} is illegal, but taken"));
        check_names(&failure, "header", &name);
    }
    trial.end(0).await;
    Ok(())
}

async fn illegal_topics_are_refused_by_name(kit: Kit) -> Result<(), BrokerError> {
    let mut illegal = kit.bed.traits().illegal_topics;
    // Core refuses these when a message is enqueued; nobody relies on that alone.
    illegal.extend(["line\r\nbreak".to_owned(), "nul\0".to_owned(), "\u{7f}".to_owned()]);
    let trial = Trial::new(kit).await;
    for topic in illegal {
        let message = Message { topic: topic.clone(), ..trial.message() };
        let call_of: [Arc<Delivery>; 1] = [trial.kit.delivery(message)];
        let outcomes = call(trial.broker.as_ref(), &call_of, DEADLINE).await;
        let [Outcome::Rejected(failure)] = &outcomes[..] else {
            panic!("topic {topic:?} is rejected, not {outcomes:?}");
        };
        check_names(failure, "topic", &topic);
    }
    trial.end(0).await;
    Ok(())
}

async fn line_breaks_never_become_headers(kit: Kit) -> Result<(), BrokerError> {
    const BREAK: &str = "a\r\ninjected: yes";
    let trial = Trial::new(kit).await;
    let with = |change: fn(&mut Message)| {
        let mut message = trial.message().header("x-beside", "stays");
        change(&mut message);
        message
    };
    let broken = [
        with(|message| message.headers.push(("x-value".to_owned(), BREAK.to_owned()))),
        with(|message| message.headers.push(("x-value".to_owned(), "a\nb".to_owned()))),
        with(|message| message.headers.push(("x-value".to_owned(), "a\0b".to_owned()))),
        with(|message| message.headers.push((BREAK.to_owned(), "value".to_owned()))),
        with(|message| message.event_type = Some(BREAK.to_owned())),
        with(|message| message.content_type = BREAK.to_owned()),
    ];
    let mut acked = 0;
    for message in broken {
        // Either refused, or what arrives is the same to the byte.
        acked += usize::from(trial.publish(message).await.is_ok());
    }
    let is_injected = |(name, _): &(String, String)| name.eq_ignore_ascii_case("injected");
    for incoming in trial.inbox.all() {
        assert!(!headers_of(&incoming.message).iter().any(is_injected), "a header was injected");
    }
    trial.end(acked).await;
    Ok(())
}
