//! What `doctor` can see of a RabbitMQ over AMQP.

use std::time::Duration;

use lapin::{
    ErrorKind,
    options::QueueDeclareOptions,
    types::{FieldTable, ShortString},
};
use posthaste_core::{BrokerError, Finding, TopicPattern};
use tokio::time::timeout;

use crate::{
    config::Settings,
    connect::{Session, declare_exchange, find_exchange},
    outcome::{Stage, Trouble, broker_error, failure},
};

/// How long all of it may take.
const EXAMINE_TIMEOUT: Duration = Duration::from_secs(10);

/// Looks at RabbitMQ without publishing anything.
pub(crate) async fn examine(
    settings: &Settings,
    topics: &[TopicPattern],
) -> Result<Vec<Finding>, BrokerError> {
    let examined = match timeout(EXAMINE_TIMEOUT, look(settings, topics)).await {
        Ok(examined) => examined,
        Err(error) => Err(Stage::Connect.of()(std::io::Error::from(error))),
    };
    examined.map_err(|trouble| broker_error(&settings.server(), trouble))
}

async fn look(settings: &Settings, topics: &[TopicPattern]) -> Result<Vec<Finding>, Trouble> {
    let session = Session::dial(settings).await?;
    let what = format!("RabbitMQ at {} lets us in", settings.server());
    let mut findings = vec![Finding::ok(what)];
    if settings.is_default_exchange() {
        for topic in topics.iter().filter(|topic| !topic.as_str().contains('*')) {
            let destination = settings.wire.destination.pattern(topic);
            findings.extend(queue(&session, destination.as_str()).await?);
        }
    } else {
        findings.push(exchange(settings, &session).await?);
        findings.push(Finding::ok(
            "whether queues are bound cannot be seen over AMQP: a message that has none is rejected \
             as unroutable; see `rabbitmqctl list_bindings`",
        ));
    }
    findings.push(Finding::ok(
        "alarms cannot be seen before something is published: see `rabbitmqctl status`",
    ));
    session.close().await;
    Ok(findings)
}

async fn exchange(settings: &Settings, session: &Session) -> Result<Finding, Trouble> {
    let name = settings.exchange.as_str();
    let channel = session.plain_channel().await?;
    let found = find_exchange(settings, &channel).await;
    match code(&found) {
        Some(404) if settings.declare => {
            let what = format!("exchange {name:?} is not there yet: it is declared when needed");
            return Ok(Finding::ok(what));
        }
        Some(404) => {
            let what = format!("exchange {name:?} does not exist");
            let fix = "declare it (durable, type topic), or set declare = true";
            return Ok(Finding::problem(what, fix));
        }
        _ => found.map_err(Stage::Open.of())?,
    }
    if !settings.declare {
        let what = format!("exchange {name:?} exists; its durability cannot be seen over AMQP");
        return Ok(Finding::ok(what));
    }
    // Changes nothing where it is as it should be, and fails where it is not.
    let declared = declare_exchange(settings, &channel).await;
    if let Some(406) = code(&declared) {
        let said = declared.map_err(Stage::Open.of()).map_err(|trouble| failure(&trouble));
        let what = format!(
            "exchange {name:?} is not a durable topic exchange: {}",
            said.err().map_or_else(String::new, |failure| failure.detail)
        );
        let fix = "delete it and let it be declared anew, name another with `exchange`, or set \
                   declare = false to take it as it is";
        return Ok(Finding::problem(what, fix));
    }
    declared.map_err(Stage::Open.of())?;
    Ok(Finding::ok(format!("exchange {name:?} is durable and of type topic")))
}

/// A queue of the default exchange.
async fn queue(session: &Session, name: &str) -> Result<Option<Finding>, Trouble> {
    let Ok(short) = ShortString::try_new(name) else { return Ok(None) };
    let channel = session.plain_channel().await?;
    let options = QueueDeclareOptions { passive: true, durable: true, ..Default::default() };
    let found = channel.queue_declare(short, options, FieldTable::default()).await.map(|_| ());
    Ok(Some(match code(&found) {
        Some(404) => {
            let fix =
                "declare it as durable: messages for it are rejected as unroutable until then";
            Finding::problem(format!("queue {name:?} does not exist"), fix)
        }
        // Another connection's own: it goes with that.
        Some(405) => {
            let fix = "declare it as durable and not exclusive";
            Finding::problem(format!("queue {name:?} is exclusive to a connection"), fix)
        }
        _ => {
            found.map_err(Stage::Open.of())?;
            let what = format!("queue {name:?} exists; its durability cannot be seen over AMQP");
            Finding::ok(what)
        }
    }))
}

fn code(result: &lapin::Result<()>) -> Option<u16> {
    match result.as_ref().err()?.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}
