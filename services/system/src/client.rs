//! Asking the APIs as any client would.

use std::{sync::Once, time::Duration};

use anyhow::{Context, bail, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{LOOK_EVERY, PATIENCE, System, eventually};

/// Longest wait for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A client of both services.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    transactions: String,
    users: String,
}

/// A transfer as it was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The id that was answered.
    pub id: Uuid,
    /// Who pays.
    pub from: String,
    /// Who is paid.
    pub to: String,
    /// How much.
    pub amount: i64,
    /// Requests it took: more than 1 where the service was away or did not answer.
    pub requests: u32,
}

impl Client {
    /// Of a system that runs.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn new(system: &System) -> anyhow::Result<Self> {
        let http = Self::http()?;
        let (transactions, users) = (system.transactions().to_owned(), system.users().to_owned());
        Ok(Self { http, transactions, users })
    }

    /// What speaks to this machine, and needs no proxy for that.
    pub(crate) fn http() -> anyhow::Result<reqwest::Client> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // Somebody else's is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        Ok(reqwest::Client::builder().no_proxy().timeout(ANSWER_TIMEOUT).build()?)
    }

    async fn ask(
        &self,
        method: Method,
        url: String,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> reqwest::Result<(StatusCode, String)> {
        let mut request = self.http.request(method, url);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await?;
        let status = response.status();
        Ok((status, response.text().await?))
    }

    async fn get(&self, url: String) -> anyhow::Result<(StatusCode, String)> {
        Ok(self.ask(Method::GET, url, None, None).await?)
    }

    /// The body of GET, which must succeed.
    ///
    /// # Errors
    /// When there is none, or the answer is another.
    pub async fn text(&self, url: &str) -> anyhow::Result<String> {
        let (status, text) = self.get(url.to_owned()).await?;
        ensure!(status == StatusCode::OK, "GET {url}: {status} {text}");
        Ok(text)
    }

    /// Asks for a transfer, with a key, again and again until the answer is known: as a client must that
    /// wants it done once.
    ///
    /// # Errors
    /// When it is refused, or nobody answers for long.
    pub async fn transfer(&self, from: &str, to: &str, amount: i64) -> anyhow::Result<Asked> {
        let key = Uuid::new_v4().to_string();
        let url = format!("{}/api/v1/transactions", self.transactions);
        let body = json!({"from_user_id": from, "to_user_id": to, "amount": amount});
        let mut requests = 0;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            requests += 1;
            let answer = self.ask(Method::POST, url.clone(), Some(&key), Some(&body)).await;
            let why = match answer {
                Ok((StatusCode::OK | StatusCode::CREATED, text)) => {
                    let id = data(&text, "id")?;
                    let id = id.as_str().and_then(|id| id.parse().ok());
                    let id = id.with_context(|| format!("no id: {text}"))?;
                    let (from, to) = (from.to_owned(), to.to_owned());
                    return Ok(Asked { id, from, to, amount, requests });
                }
                Ok((status, text)) if !status.is_server_error() => bail!("{status} {text}"),
                Ok((status, text)) => format!("{status} {text}"),
                Err(error) => error.to_string(),
            };
            if tokio::time::Instant::now() > deadline {
                bail!("no transfer could be made for {PATIENCE:?}: {why}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The status of a transfer.
    ///
    /// # Errors
    /// When there is no answer, or another.
    pub async fn status(&self, id: Uuid) -> anyhow::Result<String> {
        let text = self.text(&format!("{}/api/v1/transactions/{id}", self.transactions)).await?;
        let status = data(&text, "status")?;
        Ok(status.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until a transfer is settled; how.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn settled(&self, id: Uuid) -> anyhow::Result<String> {
        eventually(&format!("transfer {id} to be settled"), async || {
            let status = self.status(id).await?;
            Ok(matches!(&*status, "COMPLETED" | "FAILED").then_some(status))
        })
        .await
    }

    /// The balance of a user.
    ///
    /// # Errors
    /// When there is no answer, or another.
    pub async fn balance(&self, user: &str) -> anyhow::Result<i64> {
        let text = self.text(&format!("{}/api/v1/balance/{user}", self.transactions)).await?;
        data(&text, "balance")?.as_i64().with_context(|| format!("no balance: {text}"))
    }

    /// Registers a user; the status and the id, where there is one.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn register(&self, email: &str) -> anyhow::Result<(u16, Option<Uuid>)> {
        let body = json!({"email": email, "password": "correct horse"});
        let url = format!("{}/api/v1/users", self.users);
        let (status, text) = self.ask(Method::POST, url, None, Some(&body)).await?;
        let id = data(&text, "id").ok();
        Ok((status.as_u16(), id.and_then(|id| id.as_str().and_then(|id| id.parse().ok()))))
    }
}

fn data(text: &str, name: &str) -> anyhow::Result<Value> {
    let body: Value = serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))?;
    let value = body["data"].get(name).cloned();
    value.with_context(|| format!("no {name}: {text}"))
}
