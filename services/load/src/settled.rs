//! How long it takes from a transfer's creation until it is settled, as a client sees it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reqwest::Client;
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Time between two transfers that are followed.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);
/// Least pause between two looks at one; it grows to a tenth of the wait so far.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// When a transfer is given up.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Follows five transfers a second by asking for their status, which is no part of the measured load.
pub(crate) struct Sampler {
    client: Client,
    base_url: String,
    /// When the last one was taken, and everybody who is under way.
    state: Mutex<State>,
}

struct State {
    last: Instant,
    followed: JoinSet<Option<Duration>>,
}

impl Sampler {
    pub(crate) fn new(client: Client, base_url: String) -> Self {
        let state = State { last: Instant::now(), followed: JoinSet::new() };
        Self { client, base_url, state: Mutex::new(state) }
    }

    /// A transfer was created; `since` is when its request was made.
    pub(crate) fn created(&self, id: &str, since: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.elapsed() < SAMPLE_EVERY {
            return;
        }
        state.last = Instant::now();
        let url = url(&self.base_url, id);
        state.followed.spawn(follow(self.client.clone(), url, since, WAIT_MAX));
    }

    /// How long each took; `None` for one that was not settled in a minute.
    pub(crate) async fn finish(self) -> Vec<Option<Duration>> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.followed.join_all().await
    }
}

/// Whether a transfer is settled in time.
pub(crate) async fn is_settled(
    client: &Client,
    base_url: &str,
    id: &str,
    within: Duration,
) -> bool {
    follow(client.clone(), url(base_url, id), Instant::now(), within).await.is_some()
}

fn url(base_url: &str, id: &str) -> String {
    format!("{base_url}/api/v1/transactions/{id}")
}

async fn follow(
    client: Client,
    url: String,
    since: Instant,
    wait_max: Duration,
) -> Option<Duration> {
    while since.elapsed() < wait_max {
        if status(&client, &url).await.is_some_and(|status| status == "COMPLETED") {
            return Some(since.elapsed());
        }
        sleep(LOOK_EVERY.max(since.elapsed() / 10)).await;
    }
    None
}

async fn status(client: &Client, url: &str) -> Option<String> {
    let bytes = client.get(url).send().await.ok()?.bytes().await.ok()?;
    let answer: Value = serde_json::from_slice(&bytes).ok()?;
    Some(answer["data"]["status"].as_str()?.to_owned())
}
