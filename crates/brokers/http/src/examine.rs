//! What `doctor` finds out without sending a message.

use std::time::Duration;

use posthaste_core::{BrokerError, Finding, Outcome};
use posthaste_wire::redacted;

use crate::{HttpBroker, outcome};

/// How long the receiver has for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the receiver for the headers of its URL: whatever it answers, it is there.
pub(crate) async fn examine(broker: &HttpBroker) -> Result<Vec<Finding>, BrokerError> {
    let shown = redacted(&broker.config.url);
    let answer = broker.client.head(broker.url.clone()).timeout(TIMEOUT).send().await;
    let status = match answer {
        Ok(response) => response.status().as_u16(),
        Err(error) => {
            let message = match outcome::of_error(&error) {
                Outcome::Unreachable(failure) | Outcome::Unknown(failure) => {
                    format!("{shown} cannot be reached: {failure}")
                }
                Outcome::Acked | Outcome::Rejected(_) => format!("{shown} cannot be reached"),
            };
            return Err(BrokerError { message, source: None });
        }
    };
    let mut findings = vec![match status {
        410 => Finding::problem(
            format!("{shown} answers HTTP 410: it wants no more webhooks"),
            "ask its owner, or remove the route",
        ),
        300..=399 => Finding::problem(
            format!("{shown} answers HTTP {status}: it has moved, and redirects are not followed"),
            "set `url` to where it has moved",
        ),
        502..=504 => Finding::problem(
            format!("{shown} answers HTTP {status}: what is behind it does not"),
            "ask its owner; messages wait until it answers",
        ),
        _ => Finding::ok(format!("{shown} answers (HTTP {status} to HEAD)")),
    }];
    if broker.url.scheme() == "http" && !broker.config.allow_private {
        findings.push(Finding::problem(
            "messages travel unencrypted over public networks",
            "use an https:// URL",
        ));
    }
    if broker.config.secrets.len() > 1 {
        findings.push(Finding::ok(format!(
            "{} secrets sign each request: a rotation is under way",
            broker.config.secrets.len()
        )));
    }
    Ok(findings)
}
