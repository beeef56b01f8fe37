//! Answers to publishes. All of a session come to one subject of ours, and a call is woken once: when its
//! last answer is there. The driver's own way costs a channel, a map entry and a wake-up for each message.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use async_nats::{
    Message, StatusCode, Subscriber,
    jetstream::{
        self,
        context::{PublishError, PublishErrorKind},
    },
};
use foldhash::HashMap;
use futures::StreamExt;
use serde::{Deserialize, de::IgnoredAny};
use tokio::sync::oneshot;

/// Answers taken in at once, at most.
const TOGETHER_MAX: usize = 256;

/// What became of a publish.
pub(crate) enum Answer {
    /// It is stored; as a duplicate, an earlier copy is.
    Stored,
    /// Nothing listens to its subject.
    Nobody,
    Refused(PublishError),
    /// There will be none: we may not publish to its subject.
    Denied,
}

/// The publishes of a session that wait for their answers.
pub(crate) struct Answers {
    inbox: String,
    calls: Calls,
    next: AtomicU64,
}

type Calls = Arc<Mutex<HashMap<u64, Call>>>;

/// Publishes that are awaited together.
struct Call {
    found: Vec<Option<Answer>>,
    /// How many of them are there.
    count: usize,
    /// How many there will be, and who waits for them; once that is known.
    awaited: Option<(usize, oneshot::Sender<()>)>,
}

impl Answers {
    /// Those that come to an inbox.
    pub(crate) fn new(inbox: String) -> Self {
        Self { inbox, calls: Calls::default(), next: AtomicU64::new(0) }
    }

    /// What to subscribe to for them.
    pub(crate) fn pattern(&self) -> String {
        format!("{}.*", self.inbox)
    }

    /// Takes answers in as long as there may be some.
    pub(crate) fn collect(&self, subscriber: Subscriber) -> impl Future<Output = ()> + use<> {
        let (calls, prefix) = (Arc::clone(&self.calls), self.inbox.len() + 1);
        async move {
            let mut arriving = subscriber.ready_chunks(TOGETHER_MAX);
            while let Some(messages) = arriving.next().await {
                let mut calls = lock(&calls);
                for message in messages {
                    // Whoever does not wait any more has its outcome.
                    if let Some((call, place)) = message.subject.get(prefix..).and_then(place)
                        && let Some(call) = calls.get_mut(&call)
                    {
                        call.arrived(place, answer(&message));
                    }
                }
            }
        }
    }

    /// A call of at most so many publishes.
    pub(crate) fn expect(&self, publishes: usize) -> Expected<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let found = (0..publishes).map(|_| None).collect();
        lock(&self.calls).insert(id, Call { found, count: 0, awaited: None });
        Expected { answers: self, id }
    }
}

/// Answers that are expected until this is dropped.
pub(crate) struct Expected<'a> {
    answers: &'a Answers,
    id: u64,
}

impl Expected<'_> {
    /// The subject for the answer to the publish at this place.
    pub(crate) fn subject(&self, place: usize) -> String {
        format!("{}.{}-{place}", self.answers.inbox, self.id)
    }

    /// Returns when the answers to the first so many publishes are there.
    pub(crate) async fn all(&self, publishes: usize) {
        let (there, all_there) = oneshot::channel();
        if let Some(call) = lock(&self.answers.calls).get_mut(&self.id) {
            call.awaited = Some((publishes, there));
            call.tell();
        }
        // It is gone once told.
        let _ = all_there.await;
    }

    /// Gives up those that have no answer yet and are denied.
    pub(crate) fn deny(&self, is_denied: impl Fn(usize) -> bool) {
        if let Some(call) = lock(&self.answers.calls).get_mut(&self.id) {
            for place in 0..call.found.len() {
                if call.found[place].is_none() && is_denied(place) {
                    call.arrived(place, Answer::Denied);
                }
            }
        }
    }

    /// The answers that are there.
    pub(crate) fn take(self) -> Vec<Option<Answer>> {
        let call = lock(&self.answers.calls).remove(&self.id);
        call.map(|call| call.found).unwrap_or_default()
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        lock(&self.answers.calls).remove(&self.id);
    }
}

impl Call {
    fn arrived(&mut self, place: usize, answer: Answer) {
        if let Some(found @ None) = self.found.get_mut(place) {
            *found = Some(answer);
            self.count += 1;
            self.tell();
        }
    }

    fn tell(&mut self) {
        if self.awaited.as_ref().is_some_and(|(publishes, _)| self.count >= *publishes)
            && let Some((_, there)) = self.awaited.take()
        {
            // Whoever has given up need not know.
            let _ = there.send(());
        }
    }
}

fn lock(calls: &Mutex<HashMap<u64, Call>>) -> MutexGuard<'_, HashMap<u64, Call>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The call and the place in it, of the last part of a subject.
fn place(token: &str) -> Option<(u64, usize)> {
    let (call, place) = token.split_once('-')?;
    Some((call.parse().ok()?, place.parse().ok()?))
}

/// What an answer says: stored only where it names the stream and the place in it.
fn answer(message: &Message) -> Answer {
    #[derive(Deserialize)]
    struct Said {
        error: Option<jetstream::Error>,
        stream: Option<IgnoredAny>,
        seq: Option<u64>,
    }
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Answer::Nobody;
    }
    let other = |source: Box<dyn std::error::Error + Send + Sync>| {
        Answer::Refused(PublishError::with_source(PublishErrorKind::Other, source))
    };
    match serde_json::from_slice(&message.payload) {
        Ok(Said { error: Some(error), .. }) => other(error.into()),
        Ok(Said { stream: Some(_), seq: Some(_), .. }) => Answer::Stored,
        Ok(_) => other("it names no place in a stream".into()),
        Err(error) => other(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn message(status: Option<StatusCode>, payload: &'static str) -> Message {
        Message {
            subject: "inbox.0-0".into(),
            reply: None,
            payload: payload.into(),
            headers: None,
            status,
            description: None,
            length: payload.len(),
        }
    }

    #[test]
    fn only_a_place_in_a_stream_is_stored() {
        let said = |payload| answer(&message(None, payload));
        assert!(matches!(said(r#"{"stream":"S","seq":1}"#), Answer::Stored));
        let duplicate = r#"{"stream":"S","seq":1,"duplicate":true,"domain":"d"}"#;
        assert!(matches!(said(duplicate), Answer::Stored));
        let refused = r#"{"error":{"code":400,"err_code":10054,"description":"too large"}}"#;
        let both = r#"{"stream":"S","seq":0,"error":{"code":503,"err_code":10077}}"#;
        for payload in [refused, both, "{}", r#"{"stream":"S"}"#, "", "+OK"] {
            assert!(matches!(said(payload), Answer::Refused(_)), "{payload}");
        }
        let nobody = message(Some(StatusCode::NO_RESPONDERS), "");
        assert!(matches!(answer(&nobody), Answer::Nobody));
    }

    #[test]
    fn a_call_ends_with_its_last_answer_and_has_its_own_alone() {
        let answers = Answers::new("inbox".to_owned());
        let (first, second) = (answers.expect(3), answers.expect(1));
        assert_eq!(second.subject(0), "inbox.1-0");
        assert_eq!(place("1-0"), Some((1, 0)));
        assert_eq!((place("x-0"), place("10"), place("1-")), (None, None, None));
        let arrive = |call: u64, place| {
            if let Some(call) = lock(&answers.calls).get_mut(&call) {
                call.arrived(place, Answer::Stored);
            }
        };
        {
            // The third was never sent.
            let mut both = std::pin::pin!(first.all(2));
            arrive(0, 1);
            arrive(0, 1);
            assert!((&mut both).now_or_never().is_none(), "one answer, twice");
            arrive(1, 0);
            assert!((&mut both).now_or_never().is_none(), "another's answer");
            first.deny(|place| place < 2);
            assert!(both.now_or_never().is_some());
        }
        let found = first.take();
        assert!(matches!(found[..], [Some(Answer::Denied), Some(Answer::Stored), None]));
        arrive(0, 2);
        drop(second);
        assert!(lock(&answers.calls).is_empty(), "nothing is kept for nobody");
    }
}
