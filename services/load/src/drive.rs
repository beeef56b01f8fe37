//! Virtual users at work.

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::Client;
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{Call, Report, Sample, Scenario, Script, script::is_right, settled::Sampler};

/// From an answer to the next request of the same user.
const THINK: Duration = Duration::from_millis(10);

/// Longest wait for an answer, which is then an error.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A client that keeps its connections.
///
/// # Errors
/// When the machine cannot make one.
pub fn client() -> anyhow::Result<Client> {
    // The client wants to know who does cryptography, even where there is none to do. An error says
    // that the process has chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Client::builder().no_proxy().timeout(ANSWER_TIMEOUT).build()?)
}

/// What every user has.
struct World {
    client: Client,
    base_url: String,
    script: Script,
    start: Instant,
    /// Follows transfers to their settlement.
    sampler: Sampler,
}

/// Runs scenarios against a server. Transfers that are followed to their settlement may take another
/// minute after that.
pub async fn drive(
    client: &Client,
    base_url: &str,
    script: Script,
    scenarios: &[Scenario],
) -> Report {
    let base_url = base_url.trim_end_matches('/').to_owned();
    let sampler = Sampler::new(client.clone(), base_url.clone());
    let (client, start, calls) = (client.clone(), Instant::now(), script.calls());
    let world = Arc::new(World { client, base_url, script, start, sampler });
    let mut users = JoinSet::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        for number in 0..scenario.users {
            users.spawn(user(world.clone(), index, scenario.shift(number)));
        }
    }
    let samples = users.join_all().await.concat();
    let settled = match Arc::into_inner(world) {
        Some(world) => world.sampler.finish().await,
        None => unreachable!("every user has gone"),
    };
    Report { scenarios: scenarios.to_vec(), calls: calls.to_vec(), samples, settled }
}

async fn user(world: Arc<World>, scenario: usize, shift: Range<Duration>) -> Vec<Sample> {
    let mut samples = Vec::new();
    sleep_until(world.start + shift.start).await;
    while world.start.elapsed() < shift.end {
        let call = world.script.draw();
        let (took, is_good) = world.perform(call).await;
        samples.push(Sample { scenario, call, took, is_good });
        sleep(THINK).await;
    }
    samples
}

impl World {
    /// How long a call took, and whether its answer was right.
    async fn perform(&self, call: Call) -> (Duration, bool) {
        let since = Instant::now();
        let answer = self.answer(call).await;
        let took = since.elapsed();
        let Ok((status, body)) = answer else { return (took, false) };
        let Ok(body) = serde_json::from_slice::<Value>(&body) else { return (took, false) };
        let is_good = is_right(call, status, &body, self.script.seeded());
        if is_good && call == Call::CreateTransaction && self.script.settles() {
            self.sampler.created(body["data"]["id"].as_str().unwrap_or_default(), since);
        }
        (took, is_good)
    }

    async fn answer(&self, call: Call) -> reqwest::Result<(u16, Bytes)> {
        let response = self.script.request(&self.client, &self.base_url, call).send().await?;
        Ok((response.status().as_u16(), response.bytes().await?))
    }
}
