//! The end-to-end check: requested transfers are settled, and events arrive at consumers.

use std::time::Instant;

use serde_json::Value;
use uuid::Uuid;

use crate::{Client, Options, Report, System, eventually};

/// How far below zero senders may go here, and a transfer that goes too far.
const OVERDRAFT: u64 = 1_000_000;
const TOO_MUCH: i64 = 2_000_000;

/// Starts the system, uses it, reports the results, and stops the system.
///
/// # Errors
/// When something cannot be started, asked or ended. What is wrong is in the report.
pub async fn run(report: &mut Report<'_>) -> anyhow::Result<()> {
    let options = Options { overdraft: Some(OVERDRAFT), ..Options::default() };
    let system = System::start(&options, |line| report.say(line)).await?;
    let client = Client::new(&system)?;
    report.say("");
    transfers(&client, report).await?;
    users(&system, &client, report).await?;
    outbox(&system, report).await?;
    let stopped = system.stop().await;
    let seen = stopped.as_ref().map_or_else(ToString::to_string, |()| "in order".to_owned());
    report.check("everything ends when told to", seen, stopped.is_ok());
    report.verdict();
    Ok(())
}

/// Transfers end as they should, and balances show it.
async fn transfers(client: &Client, report: &mut Report<'_>) -> anyhow::Result<()> {
    for (from, to, amount, expected) in [
        ("alice", "bob", 500, "COMPLETED"),
        ("alice", "bob", 250, "COMPLETED"),
        ("bob", "alice", 100, "COMPLETED"),
        ("alice", "bob", TOO_MUCH, "FAILED"),
    ] {
        let began = Instant::now();
        let asked = client.transfer(from, to, amount).await?;
        let mut seen = vec!["PENDING".to_owned()];
        let status = eventually(&format!("transfer {} to be settled", asked.id), async || {
            let status = client.status(asked.id).await?;
            if seen.last() != Some(&status) {
                seen.push(status.clone());
            }
            Ok(matches!(&*status, "COMPLETED" | "FAILED").then_some(status))
        })
        .await?;
        let took = began.elapsed().as_secs_f64();
        let seen = format!("{} after {took:.1} s", seen.join(", "));
        let what = format!("{from} pays {to} {amount}");
        report.check(&what, seen, status == expected);
    }
    let (alice, bob) = (client.balance("alice").await?, client.balance("bob").await?);
    let seen = format!("alice {alice:+}, bob {bob:+}, together {}", alice + bob);
    report.check("balances are what was completed", seen, (alice, bob) == (-650, 650));
    Ok(())
}

/// A user is registered once, and announced once.
async fn users(system: &System, client: &Client, report: &mut Report<'_>) -> anyhow::Result<()> {
    let name = Uuid::new_v4().simple();
    let began = Instant::now();
    let (status, id) = client.register(&format!("{name}@example.com")).await?;
    report.check("a user registers", status, status == 201 && id.is_some());
    let (again, _) = client.register(&format!("{}@EXAMPLE.com", name)).await?;
    report.check("the same address again, in other letters", again, again == 409);
    let Some(id) = id else { return Ok(()) };
    let events = || arrived(&system.users_listener().log(), id);
    eventually("UserCreated", async || Ok((!events().is_empty()).then_some(()))).await?;
    let took = began.elapsed().as_secs_f64();
    let events = events();
    let types: Vec<&str> = events.iter().map(|(_, event_type)| event_type.as_str()).collect();
    let seen = format!("{} after {took:.1} s", types.join(", "));
    let is_right = matches!(&events[..], [(_, event_type)] if event_type == "UserCreated");
    report.check("the event arrives at a consumer", seen, is_right);
    Ok(())
}

/// Messages about a user in what a listener printed, by id: copies of a message have the same.
fn arrived(log: &str, user: Uuid) -> Vec<(String, String)> {
    let user = user.to_string();
    let mut events: Vec<(String, String)> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["payload"].as_str().is_some_and(|text| text.contains(&user)))
        .map(|event| ["id", "type"].map(|name| event[name].as_str().unwrap_or_default().to_owned()))
        .map(|[id, event_type]| (id, event_type))
        .collect();
    events.sort();
    events.dedup();
    events
}

/// Nothing is left in the outbox.
async fn outbox(system: &System, report: &mut Report<'_>) -> anyhow::Result<()> {
    let counts = async || {
        let status = system.status().await?;
        let route = &status["routes"][0];
        let count = |name: &str| route[name].as_u64().unwrap_or(u64::MAX);
        anyhow::Ok((count("pending"), count("retrying"), count("dead")))
    };
    // The relay writes down what is delivered a moment after it is.
    let counts = eventually("the outbox to be empty", async || {
        let counts = counts().await?;
        Ok((counts.0 == 0).then_some(counts))
    })
    .await?;
    let seen = format!("{} pending, {} retrying, {} dead", counts.0, counts.1, counts.2);
    report.check("nothing is left in the outbox", seen, counts == (0, 0, 0));
    Ok(())
}
