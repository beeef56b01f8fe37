//! A running program on a database of its own.

use std::ops::Deref;

use serde_json::{Value, json};
use services_web::testing::{Answer, Bed, Program};

/// The path transfers are created at.
pub(crate) const PATH: &str = "/api/v1/transactions";

/// The program's path.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_transactions");

/// A program and its database.
pub(crate) struct Api {
    pub(crate) program: Program,
    pub(crate) bed: Bed,
}

impl Api {
    /// Started, with its tables. Nobody settles anything but the test.
    pub(crate) async fn on(bed: Bed) -> Self {
        let environment = bed.with(&[("SETTLEMENT", "external")]);
        let program = Program::start(PROGRAM, &environment).await;
        program.poll("/readyz", |answer| answer.status == 200).await;
        Self { program, bed }
    }

    /// Asks for a transfer with a key.
    pub(crate) async fn keyed(&self, key: &str, body: &Value) -> Answer {
        Answer::to(self.keyed_request(key, body)).await.unwrap()
    }

    /// The request of [`keyed`](Self::keyed).
    pub(crate) fn keyed_request(&self, key: &str, body: &Value) -> reqwest::RequestBuilder {
        let request = self.program.request("POST", PATH).header("Idempotency-Key", key);
        request.header("content-type", "application/json").body(body.to_string())
    }

    /// Creates a transfer; its id.
    pub(crate) async fn create(&self, body: &Value) -> String {
        let answer = self.program.post(PATH, body.to_string()).await;
        assert_eq!(answer.status, 201, "{answer:#?}");
        answer.json()["data"]["id"].as_str().unwrap().to_owned()
    }

    /// Waits until a transfer has this status.
    pub(crate) async fn wait_status(&self, id: &str, status: &str) {
        let is_right = |answer: &Answer| answer.json()["data"]["status"] == status;
        self.program.poll(&format!("{PATH}/{id}"), is_right).await;
    }

    /// A user's balance, as text: it may not fit into what a parser makes of it.
    pub(crate) async fn balance(&self, user: &str) -> String {
        let answer = self.program.get(&format!("/api/v1/balance/{user}")).await;
        assert_eq!(answer.status, 200, "{answer:#?}");
        let (_, rest) = answer.text.split_once("\"balance\":").unwrap();
        rest.trim_end_matches('}').to_owned()
    }

    /// Rows of transfers, and of messages.
    pub(crate) async fn counts(&self) -> (usize, usize) {
        (self.bed.count("transactions").await, self.bed.count(self.bed.outbox()).await)
    }
}

impl Deref for Api {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

/// A transfer.
pub(crate) fn transfer(from: &str, to: &str, amount: i64) -> Value {
    json!({"from_user_id": from, "to_user_id": to, "amount": amount})
}

/// The same test on each database.
macro_rules! on_each_database {
    ($(#[$about:meta])* $name:ident, |$api:ident| $body:expr) => {
        mod $name {
            use super::*;

            $(#[$about])*
            #[tokio::test]
            async fn on_postgres() {
                let $api = crate::bed::Api::on(services_web::testing::Bed::postgres().await).await;
                $body
            }

            $(#[$about])*
            #[tokio::test]
            async fn on_sqlite() {
                let $api = crate::bed::Api::on(services_web::testing::Bed::sqlite()).await;
                $body
            }
        }
    };
}
pub(crate) use on_each_database;
