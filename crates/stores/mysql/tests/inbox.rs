//! The shared inbox suite, on MariaDB.

mod bed;

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use bed::Bed;
use posthaste_conformance::{inbox, store::TestBed};
use posthaste_core::{InboxConnection, InboxStore, Message, StoreError};
use posthaste_store_mysql::{Guarded, Inbox, begin, enqueue};
use sqlx::{Connection, Executor, MySql, Transaction};

fn main() -> ExitCode {
    inbox::run("mysql", Fixture)
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

    async fn begin_unguarded(&self) -> Box<dyn inbox::Writer> {
        let begun = self.0.pool.begin().await;
        Box::new(Unguarded(begun.expect("a transaction can begin")))
    }

    async fn write_alone(&self) {
        self.0.pool.execute(WRITE).await.expect("the application can write");
    }

    async fn enqueued(&self) -> u64 {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM posthaste_outbox")
            .fetch_one(&self.0.pool)
            .await
            .expect("the outbox can be counted");
        count.unsigned_abs()
    }

    async fn advance(&self, by: Duration) {
        for sql in [
            "UPDATE posthaste_inbox SET at = at - INTERVAL ? SECOND",
            "UPDATE posthaste_inbox_dead SET state_at = state_at - INTERVAL ? SECOND",
        ] {
            sqlx::query(sql)
                .bind(by.as_secs())
                .execute(&self.0.pool)
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
struct Unguarded(Transaction<'static, MySql>);

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

/// Meets another transaction in a deadlock, and is the one that the server rolls back: the other one
/// has written more.
async fn fail(connection: &mut sqlx::MySqlConnection) {
    let database: String =
        sqlx::query_scalar("SELECT DATABASE()").fetch_one(&mut *connection).await.expect("a name");
    let mut other = bed::connect_to(&database).await;
    let prepare = "CREATE TABLE IF NOT EXISTS pair (id INT PRIMARY KEY, n INT NOT NULL);
        INSERT IGNORE INTO pair VALUES (1, 0), (2, 0);
        CREATE TABLE IF NOT EXISTS heavy (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL)";
    other.execute(sqlx::raw_sql(prepare)).await.expect("tables");
    let mut other = other.begin().await.expect("a transaction");
    other
        .execute("INSERT INTO heavy (n) SELECT 1 FROM information_schema.COLLATIONS")
        .await
        .expect("rows");
    other.execute("UPDATE pair SET n = 1 WHERE id = 1").await.expect("a lock");
    connection.execute("UPDATE pair SET n = 2 WHERE id = 2").await.expect("a lock");
    let (theirs, ours) = tokio::join!(
        other.execute("UPDATE pair SET n = 1 WHERE id = 2"),
        connection.execute("UPDATE pair SET n = 2 WHERE id = 1"),
    );
    theirs.expect("the other goes on");
    let ours = ours.expect_err("this is the victim");
    let number = ours.as_database_error().and_then(|it| it.code()).map(|it| it.into_owned());
    assert_eq!(number.as_deref(), Some("40001"), "{ours}");
    other.rollback().await.expect("a rollback");
}

async fn fail_in_savepoint(connection: &mut sqlx::MySqlConnection) {
    let mut savepoint = connection.begin().await.expect("a savepoint");
    savepoint
        .execute("INSERT INTO posthaste_outbox (topic, payload) VALUES ('', '')")
        .await
        .expect_err("the statement fails");
    savepoint.rollback().await.expect("a savepoint can be rolled back");
}
