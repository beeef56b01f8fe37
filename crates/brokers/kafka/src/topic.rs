//! Whether a topic is there, asked before the first message to it is sent.
//!
//! The client would keep messages to a topic that is missing for half a minute, and could then drop
//! one and send the next: so it gets none.

use std::{pin::pin, time::Duration};

use posthaste_core::{Failure, Outcome};
use posthaste_wire::Link;
use rdkafka::{error::KafkaError, producer::Producer as _, types::RDKafkaErrorCode as Code};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    connect::{Producer, blocking},
    outcome::outcome,
    publish::Until,
    round::PATIENCE,
};

/// How often a missing topic is looked for, because asking may create it.
const LOOKS: u32 = 5;
/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(150);
/// How long the client's thread is kept busy by one question.
pub(crate) const QUESTION: Duration = Duration::from_millis(500);

/// What was found.
pub(crate) enum Found {
    /// With so many partitions.
    There(usize),
    Refused(Failure),
}

/// Looks for a topic. An error means that no server could be asked.
pub(crate) async fn look_up(
    producer: &Link<Producer>,
    topic: &str,
    until: Until,
) -> Result<Found, Failure> {
    let mut looks = 0;
    loop {
        let name = topic.to_owned();
        let asked = ask(producer, until, move |producer| partitions(producer, &name)).await?;
        match asked {
            Ok(partitions) => return Ok(Found::There(partitions)),
            Err(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::LeaderNotAvailable)
                if looks < LOOKS =>
            {
                looks += 1;
                sleep_until((Instant::now() + PAUSE).min(until.answers)).await;
            }
            Err(code) => match outcome(code) {
                Outcome::Rejected(failure) => {
                    let detail = format!("topic {topic}: {}", failure.detail);
                    return Ok(Found::Refused(Failure { detail, ..failure }));
                }
                Outcome::Unreachable(failure) | Outcome::Unknown(failure) => return Err(failure),
                Outcome::Acked => {}
            },
        }
    }
}

/// How many partitions a topic has, or what the servers say is wrong with it.
fn partitions(producer: &Producer, topic: &str) -> Result<Result<usize, Code>, KafkaError> {
    let metadata = producer.client().client().fetch_metadata(Some(topic), QUESTION)?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Ok(Err(Code::UnknownTopicOrPartition));
    };
    Ok(match (found.error(), found.partitions().len()) {
        (Some(error), _) => Err(Code::from(error)),
        (None, 0) => Err(Code::UnknownTopicOrPartition),
        (None, partitions) => Ok(partitions),
    })
}

/// Asks the servers, again and again until one answers or none will.
pub(crate) async fn ask<T: Send + 'static>(
    producer: &Link<Producer>,
    until: Until,
    question: impl Fn(&Producer) -> Result<T, KafkaError> + Clone + Send + 'static,
) -> Result<T, Failure> {
    loop {
        match answer(producer, until, question.clone()).await? {
            Ok(answer) => {
                producer.health().works();
                return Ok(answer);
            }
            Err(_) if Instant::now() < until.answers => {}
            Err(error) => {
                let failure = || Failure::new("timeout", error.to_string());
                return Err(producer.health().last().unwrap_or_else(failure));
            }
        }
    }
}

/// Asks once, and stops listening when no answer can come.
async fn answer<T: Send + 'static>(
    producer: &Link<Producer>,
    until: Until,
    question: impl FnOnce(&Producer) -> Result<T, KafkaError> + Send + 'static,
) -> Result<Result<T, KafkaError>, Failure> {
    let health = producer.health();
    let asked = producer.clone();
    let mut answer = pin!(blocking(move || question(&asked)));
    loop {
        let mut changed = pin!(health.changed.notified());
        changed.as_mut().enable();
        if let Some(refused) = health.is_refused() {
            return Err(refused);
        }
        let limit = health.down_since().map_or(until.answers, |since| since + PATIENCE);
        let event = async {
            tokio::select! {
                answer = &mut answer => Some(answer),
                () = changed => None,
            }
        };
        match timeout_at(limit.min(until.answers), event).await {
            Ok(Some(answer)) => return answer,
            Ok(None) => {}
            Err(_) => {
                let failure = || Failure::new("timeout", "no server answers");
                return Err(health.last().unwrap_or_else(failure));
            }
        }
    }
}
