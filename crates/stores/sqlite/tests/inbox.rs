//! The shared inbox suite, on SQLite.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod bed;
#[allow(dead_code, reason = "the store suite uses the rest")]
mod fixture;

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use bed::Bed;
use posthaste_conformance::{inbox, store::TestBed};
use posthaste_core::{InboxConnection, InboxStore, Message, StoreError};
use posthaste_store_sqlite::{Guarded, Inbox, begin, enqueue};
use sqlx::{Connection, Executor, Sqlite, Transaction};

fn main() -> ExitCode {
    inbox::run("sqlite", Fixture)
}

struct Fixture;

#[async_trait]
impl inbox::Fixture for Fixture {
    async fn fresh(&self) -> Arc<dyn inbox::Bed> {
        Arc::new(Inboxes(Bed::fresh().await))
    }
}

struct Inboxes(Bed);

#[async_trait]
impl inbox::Bed for Inboxes {
    fn inbox_store(&self) -> Arc<dyn InboxStore> {
        self.0.store.clone()
    }

    fn has_concurrent_writers(&self) -> bool {
        false
    }

    async fn begin(&self) -> Box<dyn inbox::Writer> {
        Box::new(Open(begin(&self.0.app).await.expect("a transaction can begin")))
    }

    async fn begin_unguarded(&self) -> Box<dyn inbox::Writer> {
        let begun = self.0.app.begin_with("BEGIN IMMEDIATE").await;
        Box::new(Unguarded(begun.expect("a transaction can begin")))
    }

    async fn write_alone(&self) {
        self.0.app.execute(WRITE).await.expect("the application can write");
    }

    async fn enqueued(&self) -> u64 {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM posthaste_outbox")
            .fetch_one(&self.0.app)
            .await
            .expect("the outbox can be counted");
        count.unsigned_abs()
    }

    async fn advance(&self, by: Duration) {
        for sql in [
            "UPDATE posthaste_inbox SET at = at - ?1",
            "UPDATE posthaste_inbox_dead SET dead_at = dead_at - ?1, state_at = state_at - ?1",
        ] {
            sqlx::query(sql)
                .bind(by.as_secs_f64())
                .execute(&self.0.app)
                .await
                .expect("times can be moved");
        }
    }

    async fn remove(&self) {
        TestBed::remove(&self.0).await;
    }
}

/// A message by a statement of the application's own.
const WRITE: &str = "INSERT INTO posthaste_outbox (topic, payload) VALUES ('effects', '')";

/// A handler's open transaction.
struct Open(Guarded);

#[async_trait]
impl inbox::Writer for Open {
    fn inbox(&mut self) -> Box<dyn InboxConnection + '_> {
        Box::new(Inbox::new(&mut self.0).expect("in a transaction"))
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        enqueue(&mut self.0, messages).await
    }

    async fn fail(&mut self) {
        fail(&mut self.0).await;
    }

    async fn write_anyway(&mut self) {
        let _ = self.0.execute(WRITE).await;
    }

    async fn fail_in_savepoint(&mut self) {
        fail_in_savepoint(&mut self.0).await;
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await
    }

    async fn rollback(self: Box<Self>) {
        self.0.rollback().await;
    }
}

/// A transaction of the driver alone.
struct Unguarded(Transaction<'static, Sqlite>);

#[async_trait]
impl inbox::Writer for Unguarded {
    fn inbox(&mut self) -> Box<dyn InboxConnection + '_> {
        Box::new(Inbox::new(&mut self.0).expect("in a transaction"))
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        enqueue(&mut self.0, messages).await
    }

    async fn fail(&mut self) {
        fail(&mut self.0).await;
    }

    async fn write_anyway(&mut self) {
        let _ = self.0.execute(WRITE).await;
    }

    async fn fail_in_savepoint(&mut self) {
        fail_in_savepoint(&mut self.0).await;
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await.expect("a commit");
        Ok(())
    }

    async fn rollback(self: Box<Self>) {
        // Fails on SQLite where the transaction is no longer there.
        let _ = self.0.rollback().await;
    }
}

/// Breaks a constraint with a statement that rolls the whole transaction back then.
async fn fail(connection: &mut sqlx::SqliteConnection) {
    let insert = "INSERT OR ROLLBACK INTO posthaste_outbox (topic, payload) VALUES ('', '')";
    connection.execute(insert).await.expect_err("the statement fails");
}

async fn fail_in_savepoint(connection: &mut sqlx::SqliteConnection) {
    let mut savepoint = connection.begin().await.expect("a savepoint");
    savepoint
        .execute("INSERT INTO posthaste_outbox (topic, payload) VALUES ('', '')")
        .await
        .expect_err("the statement fails");
    savepoint.rollback().await.expect("a savepoint can be rolled back");
}
