//! One round of messages through a producer: all handed over in order, then every answer awaited.

use std::{collections::HashSet, pin::pin, sync::Arc, time::Duration};

use posthaste_core::{Failure, Outcome};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    connect::{Producer, Reports, Ticket},
    outcome::outcome,
    publish::{Marked, Until},
    record,
};

/// How long a client that found all servers down is given to find one after all: it tries the
/// addresses of a name one after the other, and calls each that fails "all down".
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How soon a full client is asked again.
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// How soon a client that has stopped is looked after again.
const STOPPED_PAUSE: Duration = Duration::from_millis(10);

/// What became of a message in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Acked,
    /// The client said so.
    Failed(Code),
    /// It was not handed to the client, because others before it failed.
    Unsent,
    /// It was not handed to the client, which was full until the end.
    Throttled,
    /// It was, and nothing was heard of it since.
    Lost(Failure),
}

impl Answer {
    /// What it means for the message; `None` where the message was not sent and may be yet.
    pub(crate) fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Acked => Some(Outcome::Acked),
            Self::Failed(code) => Some(outcome(code)),
            Self::Unsent => None,
            Self::Throttled => Some(outcome(Code::QueueFull)),
            Self::Lost(failure) => Some(Outcome::Unknown(failure)),
        }
    }
}

/// Sends one message of a part and awaits what becomes of it.
pub(crate) async fn alone(
    producer: &Producer,
    part: &[&mut Marked<'_>],
    index: usize,
    until: Until,
) -> Answer {
    pipeline(producer, part, &[index], until).await.pop().unwrap_or(Answer::Unsent)
}

/// Sends these messages of a part and awaits what becomes of them.
pub(crate) async fn pipeline(
    producer: &Producer,
    part: &[&mut Marked<'_>],
    todo: &[usize],
    until: Until,
) -> Vec<Answer> {
    let reports = Arc::new(Reports::new(todo.len()));
    let mut handing = HandOver { producer, part, reports: &reports, kept: Vec::new() };
    handing.all(todo, until).await;
    let kept = handing.kept;
    let lost = wait(producer, &reports, until).await;
    // Backwards: reports come in order, and may still come. Whatever is found acknowledged has all
    // before it reported by then.
    let mut kept = kept.into_iter().rev().peekable();
    let answer = |at: usize| {
        if let Some((_, answer)) = kept.next_if(|(kept, _)| *kept == at) {
            return answer;
        }
        match reports.get(at) {
            Some(Ok(())) => Answer::Acked,
            Some(Err(code)) => Answer::Failed(code),
            None => Answer::Lost(lost.clone().unwrap_or_else(timed_out)),
        }
    };
    let mut answers: Vec<Answer> = (0..todo.len()).rev().map(answer).collect();
    answers.reverse();
    doubt_what_is_behind_a_failure(part, todo, &mut answers);
    answers
}

/// A client that is stopping may still send a batch of what it was about to give up. A server that
/// turned away the one before should refuse it, too; its word for the opposite is not taken.
fn doubt_what_is_behind_a_failure(
    part: &[&mut Marked<'_>],
    todo: &[usize],
    answers: &mut [Answer],
) {
    let mut failed_keys: HashSet<&str> = HashSet::new();
    for (&index, answer) in todo.iter().zip(answers) {
        let Some(key) = part[index].delivery.message.key.as_deref() else { continue };
        if *answer != Answer::Acked {
            failed_keys.insert(key);
        } else if failed_keys.contains(key) {
            let failure = Failure::new("producer", "acknowledged in spite of a failure before it");
            *answer = Answer::Lost(failure);
        }
    }
}

struct HandOver<'a, 'b, 'c> {
    producer: &'a Producer,
    part: &'a [&'b mut Marked<'c>],
    reports: &'a Arc<Reports>,
    /// What did not get in, by place, in order.
    kept: Vec<(usize, Answer)>,
}

impl HandOver<'_, '_, '_> {
    /// Hands over messages up to the first that does not get in; those behind it are not sent.
    async fn all(&mut self, todo: &[usize], until: Until) {
        let mut is_over = None;
        for (at, &index) in todo.iter().enumerate() {
            if is_over.is_none() && !self.reports.have_failure() {
                match self.one(at, index, until).await {
                    Ok(()) => continue,
                    Err(Code::Fatal) => {}
                    Err(Code::QueueFull) => is_over = Some(Answer::Throttled),
                    Err(code) => {
                        is_over = Some(Answer::Unsent);
                        self.keep(at, Answer::Failed(code));
                        continue;
                    }
                }
            }
            let answer = is_over.get_or_insert(Answer::Unsent).clone();
            self.keep(at, answer);
        }
    }

    fn keep(&mut self, at: usize, answer: Answer) {
        self.kept.push((at, answer));
        self.reports.forget();
    }

    /// Hands over one message, waiting for room if there is none.
    async fn one(&self, at: usize, index: usize, until: Until) -> Result<(), Code> {
        let ticket = Ticket { reports: Arc::clone(self.reports), index: at };
        let mut record = record::record(self.part[index], ticket);
        if self.part[index].prepared.is_untimed {
            record.timestamp = None;
        }
        loop {
            let (error, back) = match self.producer.client().send(record) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
            let again = Instant::now() + FULL_PAUSE;
            if code != Code::QueueFull || again >= until.answers {
                return Err(code);
            }
            record = back;
            sleep_until(again).await;
        }
    }
}

/// Waits for every report; says why where some will not come.
async fn wait(producer: &Producer, reports: &Reports, until: Until) -> Option<Failure> {
    let health = producer.health();
    let mut stopped_at = None;
    loop {
        let mut changed = pin!(health.changed.notified());
        changed.as_mut().enable();
        if reports.are_complete() {
            return None;
        }
        let is_fatal = producer.fatal().is_some();
        if is_fatal {
            // What waits would wait for ever; what is on its way is answered yet, and may have to wait
            // then, too.
            stopped_at.get_or_insert_with(Instant::now);
            producer.purge(false).await;
        }
        let down_since = health.down_since();
        let limit = [stopped_at, down_since].into_iter().flatten().map(|since| since + PATIENCE);
        let limit = limit.fold(until.answers, Instant::min);
        let pause = if is_fatal { (Instant::now() + STOPPED_PAUSE).min(limit) } else { limit };
        let event = async {
            tokio::select! {
                () = reports.complete.notified() => {}
                () = changed => {}
            }
        };
        if timeout_at(pause, event).await.is_err() && Instant::now() >= limit {
            return Some(match down_since {
                _ if limit >= until.answers => timed_out(),
                Some(_) => down(producer),
                None => Failure::new("producer", "the client stopped"),
            });
        }
    }
}

fn timed_out() -> Failure {
    Failure::new("timeout", "no answer in time")
}

fn down(producer: &Producer) -> Failure {
    let last = producer.health().last();
    last.unwrap_or_else(|| Failure::new("connection", "all servers are down"))
}
