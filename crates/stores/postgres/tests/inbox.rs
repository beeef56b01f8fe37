//! The shared inbox suite, on PostgreSQL.

mod bed;

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use bed::Bed;
use posthaste_conformance::{inbox, store::TestBed};
use posthaste_core::{InboxConnection, InboxStore, Message, StoreError};
use posthaste_store_postgres::{Inbox, begin, enqueue};
use sqlx::{Postgres, Transaction};

fn main() -> ExitCode {
    inbox::run("postgres", Fixture)
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
        Arc::new(self.0.store.clone())
    }

    fn has_concurrent_writers(&self) -> bool {
        true
    }

    async fn begin(&self) -> Box<dyn inbox::Writer> {
        Box::new(Open(begin(&self.0.pool).await.expect("a transaction can begin")))
    }

    async fn enqueued(&self) -> u64 {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM posthaste.outbox")
            .fetch_one(&self.0.pool)
            .await
            .expect("the outbox can be counted");
        count.unsigned_abs()
    }

    async fn advance(&self, by: Duration) {
        for sql in [
            "UPDATE posthaste.inbox SET at = at - make_interval(secs => $1)",
            "UPDATE posthaste.inbox_dead SET dead_at = dead_at - make_interval(secs => $1), \
             state_at = state_at - make_interval(secs => $1)",
        ] {
            sqlx::query(sql)
                .bind(by.as_secs_f64())
                .execute(&self.0.pool)
                .await
                .expect("times can be moved");
        }
    }

    async fn remove(&self) {
        TestBed::remove(&self.0).await;
    }
}

/// A handler's open transaction.
struct Open(Transaction<'static, Postgres>);

#[async_trait]
impl inbox::Writer for Open {
    fn inbox(&mut self) -> Box<dyn InboxConnection + '_> {
        Box::new(Inbox::new(&mut self.0).expect("in a transaction"))
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        enqueue(&mut self.0, messages).await
    }

    async fn commit(self: Box<Self>) {
        self.0.commit().await.expect("a commit");
    }

    async fn rollback(self: Box<Self>) {
        self.0.rollback().await.expect("a rollback");
    }
}
