//! What a virtual user asks for, and what answer is right.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::settled;

/// Whose transfers and balances are asked for.
const USERS: [&str; 6] =
    ["load-user-a", "load-user-b", "load-user-c", "load-user-d", "load-user-e", "load-user-f"];

/// How long the first transfer may take to be settled; if it takes longer, none is followed.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// A new transfer with a key of its own.
    CreateTransaction,
    /// The status of one transfer, made before the run.
    GetStatus,
    /// The balance of one of six users.
    GetBalance,
    /// A new user.
    CreateUser,
}

impl Call {
    /// As the metrics of the requirements name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CreateTransaction => "create_transaction",
            Self::GetStatus => "get_status",
            Self::GetBalance => "get_balance",
            Self::CreateUser => "create_user",
        }
    }
}

/// What is asked for, in which proportions.
#[derive(Clone, Debug)]
pub enum Script {
    /// 60 % balances, 30 % new transfers, 10 % the status of this one.
    Transfers {
        /// The transfer's id.
        seeded: String,
        /// Whether transfers are settled there, so that it makes sense to follow some of them.
        settles: bool,
    },
    /// New users alone.
    Users,
}

impl Script {
    /// The script of transfers, with the transfer that it asks for. Waits a little for its settlement.
    ///
    /// # Errors
    /// When that cannot be made: what follows would measure failures.
    pub async fn transfers(client: &Client, base_url: &str) -> anyhow::Result<Self> {
        let response = create_request(client, base_url, 1000).send().await?;
        let status = response.status().as_u16();
        let answer: Value = serde_json::from_slice(&response.bytes().await?)?;
        ensure!(is_right(Call::CreateTransaction, status, &answer, ""), "the setup got {status}");
        let seeded = answer["data"]["id"].as_str().context("an id")?.to_owned();
        let settles = settled::is_settled(client, base_url, &seeded, SETTLES_WITHIN).await;
        Ok(Self::Transfers { seeded, settles })
    }

    /// Its calls.
    #[must_use]
    pub fn calls(&self) -> &'static [Call] {
        match self {
            Self::Transfers { .. } => &[Call::CreateTransaction, Call::GetStatus, Call::GetBalance],
            Self::Users => &[Call::CreateUser],
        }
    }

    /// The transfer whose status is asked for.
    pub(crate) fn seeded(&self) -> &str {
        match self {
            Self::Transfers { seeded, .. } => seeded,
            Self::Users => "",
        }
    }

    /// Whether transfers are followed to their settlement.
    pub(crate) fn settles(&self) -> bool {
        matches!(self, Self::Transfers { settles: true, .. })
    }

    /// The next call.
    pub(crate) fn draw(&self) -> Call {
        match (self, fastrand::u8(0..10)) {
            (Self::Users, _) => Call::CreateUser,
            (Self::Transfers { .. }, 0..6) => Call::GetBalance,
            (Self::Transfers { .. }, 6..9) => Call::CreateTransaction,
            (Self::Transfers { .. }, _) => Call::GetStatus,
        }
    }

    /// Its request.
    pub(crate) fn request(&self, client: &Client, base_url: &str, call: Call) -> RequestBuilder {
        match call {
            Call::CreateTransaction => create_request(client, base_url, fastrand::i64(100..=999)),
            Call::GetStatus => {
                client.get(format!("{base_url}/api/v1/transactions/{}", self.seeded()))
            }
            Call::GetBalance => {
                let user = USERS[fastrand::usize(..USERS.len())];
                client.get(format!("{base_url}/api/v1/balance/{user}"))
            }
            Call::CreateUser => {
                let email = format!("load-{}@example.com", Uuid::new_v4().simple());
                let body = json!({"email": email, "password": "loadtestpassword123"});
                post(client, format!("{base_url}/api/v1/users"), &body)
            }
        }
    }
}

fn create_request(client: &Client, base_url: &str, amount: i64) -> RequestBuilder {
    let from = fastrand::usize(..USERS.len());
    let to = (from + fastrand::usize(1..USERS.len())) % USERS.len();
    let body = json!({"from_user_id": USERS[from], "to_user_id": USERS[to], "amount": amount,
        "description": "load test"});
    post(client, format!("{base_url}/api/v1/transactions"), &body)
        .header("Idempotency-Key", Uuid::new_v4().to_string())
}

fn post(client: &Client, url: String, body: &Value) -> RequestBuilder {
    client.post(url).header("content-type", "application/json").body(body.to_string())
}

/// Whether an answer is what its call asked for. Nothing that is absent passes.
#[must_use]
pub fn is_right(call: Call, status: u16, answer: &Value, seeded: &str) -> bool {
    let data = &answer["data"];
    let id = data["id"].as_str().unwrap_or_default();
    match call {
        Call::CreateTransaction => matches!(status, 200 | 201) && !id.is_empty(),
        Call::GetStatus => status == 200 && !id.is_empty() && id == seeded,
        Call::GetBalance => status == 200 && data["balance"].is_number(),
        Call::CreateUser => status == 201 && !id.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D3-36: the original's check of a status passed for an answer without one.
    #[test]
    fn r5_02_only_right_answers_pass_the_checks() {
        use Call::{CreateTransaction, CreateUser, GetBalance, GetStatus};
        let id = json!({"data": {"id": "7", "status": "PENDING"}});
        let capitals = json!({"data": {"ID": "7", "Status": "PENDING"}});
        let balance = json!({"data": {"user_id": "a", "balance": -5}});
        for (call, status, answer, is_expected) in [
            (CreateTransaction, 201, &id, true),
            (CreateTransaction, 200, &id, true),
            (CreateTransaction, 202, &id, false),
            (CreateTransaction, 201, &capitals, false),
            (GetStatus, 200, &id, true),
            (GetStatus, 404, &id, false),
            (GetStatus, 200, &capitals, false),
            (GetStatus, 200, &json!({"data": {"id": ""}}), false),
            (GetStatus, 200, &json!({"data": {"id": "8"}}), false),
            (GetBalance, 200, &balance, true),
            (GetBalance, 500, &balance, false),
            (GetBalance, 200, &json!({"data": {"Balance": 1}}), false),
            (GetBalance, 200, &json!({"data": {"balance": "1"}}), false),
            (CreateUser, 201, &id, true),
            (CreateUser, 409, &id, false),
        ] {
            assert_eq!(is_right(call, status, answer, "7"), is_expected, "{call:?} {answer}");
        }
    }

    #[test]
    fn r5_01_the_mix_is_that_of_the_document() {
        let script = Script::Transfers { seeded: String::new(), settles: false };
        let calls: Vec<Call> = (0..100_000).map(|_| script.draw()).collect();
        let share = |call| calls.iter().filter(|drawn| **drawn == call).count();
        // Ten standard deviations are 1,550.
        assert!(share(Call::GetBalance).abs_diff(60_000) < 1_600);
        assert!(share(Call::CreateTransaction).abs_diff(30_000) < 1_600);
        assert!(share(Call::GetStatus).abs_diff(10_000) < 1_600);
    }
}
