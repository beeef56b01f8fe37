//! What `doctor` finds out without sending a message.

use std::time::Duration;

use posthaste_core::{BrokerError, Finding};
use tokio::time::timeout;

use crate::{
    Frames,
    config::Target,
    connect::Session,
    outcome::{Fault, broker_error},
};

/// How long the consumer has for accepting a connection.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Connects, and says what it is worth.
pub(crate) async fn examine(target: &Target, frames: Frames) -> Result<Vec<Finding>, BrokerError> {
    if frames == Frames::Original {
        let what = format!(
            "{target} was not asked: a consumer of original frames may accept one connection ever"
        );
        return Ok(vec![Finding::ok(what)]);
    }
    let dialled = timeout(TIMEOUT, Session::dial(target)).await;
    let session = dialled
        .unwrap_or(Err(Fault::NoTime(TIMEOUT)))
        .map_err(|fault| broker_error(&target.to_string(), &fault))?;
    let mut findings = vec![Finding::ok(format!("{target} accepts connections"))];
    if !session.is_near() {
        findings.push(Finding::problem(
            format!("messages travel to {target} unencrypted over public networks"),
            "put a tunnel in between (WireGuard, ssh -L, stunnel), or use another broker",
        ));
    }
    Ok(findings)
}
