//! The inbox for runners and tools: dead letters of consumers, retention, logs, the picture.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::{
    InboxPurged, InboxStatus, InboxStore, Letter, ParkedFilter, ParkedView, Provenance, StoreError,
    Tally,
};
use sqlx::{PgConnection, Row, postgres::PgRow};
use uuid::Uuid;

use crate::{
    PostgresStore,
    error::Fault,
    parked::{filtered, number, view},
    row::{self, MORE},
    transaction::{query, scalar},
};

#[async_trait]
impl InboxStore for PostgresStore {
    async fn letters(
        &self,
        filter: &ParkedFilter,
        limit: u32,
    ) -> Result<Vec<ParkedView>, StoreError> {
        let filter = filter.clone();
        self.call("letters", move |connection| {
            Box::pin(async move {
                let rows = filtered(include_str!("../sql/inbox_letters.sql"), &filter)
                    .bind(i64::from(limit))
                    .fetch_all(connection)
                    .await?;
                rows.iter().map(|row| Ok(view(row)?.restored())).collect()
            })
        })
        .await
    }

    async fn redrive_letters(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        let (filter, by) = (filter.clone(), by.to_owned());
        self.call("redrive_letters", move |connection| {
            Box::pin(async move {
                let update = filtered(include_str!("../sql/inbox_redrive.sql"), &filter).bind(by);
                Ok(update.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn discard_letters(
        &self,
        filter: &ParkedFilter,
        by: &str,
        why: &str,
    ) -> Result<u64, StoreError> {
        let (filter, by, why) = (filter.clone(), by.to_owned(), why.to_owned());
        self.call("discard_letters", move |connection| {
            Box::pin(async move {
                let update = filtered(include_str!("../sql/inbox_discard.sql"), &filter);
                Ok(update.bind(by).bind(why).execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn due_letters(&self, consumer: &str, limit: u32) -> Result<Vec<Letter>, StoreError> {
        let consumer = consumer.to_owned();
        self.call("due_letters", move |connection| {
            Box::pin(async move {
                let rows = query(include_str!("../sql/inbox_due.sql"))
                    .bind(&consumer)
                    .bind(i64::from(limit))
                    .fetch_all(connection)
                    .await?;
                rows.iter().map(|row| letter(&consumer, row)).collect()
            })
        })
        .await
    }

    async fn purge_inbox(
        &self,
        consumer: &str,
        window: Duration,
        rows_max: u32,
    ) -> Result<InboxPurged, StoreError> {
        let consumer = consumer.to_owned();
        self.call("purge_inbox", move |connection| {
            Box::pin(purge(connection, consumer, window, rows_max))
        })
        .await
    }

    async fn adopt_log(
        &self,
        consumer: &str,
        source: &str,
        log: Uuid,
        by: &str,
    ) -> Result<bool, StoreError> {
        let (consumer, source, by) = (consumer.to_owned(), source.to_owned(), by.to_owned());
        self.call("adopt_log", move |connection| {
            Box::pin(adopt(connection, consumer, source, log, by))
        })
        .await
    }

    async fn forget_log(&self, consumer: &str, log: Uuid) -> Result<u64, StoreError> {
        let consumer = consumer.to_owned();
        self.call("forget_log", move |connection| {
            Box::pin(async move {
                let forget = query(include_str!("../sql/inbox_forget_log.sql"));
                let forgotten = forget.bind(&consumer).bind(log).execute(&mut *connection).await?;
                let pages = query(include_str!("../sql/inbox_forget_pages.sql"));
                pages.bind(&consumer).bind(log).execute(connection).await?;
                Ok(forgotten.rows_affected())
            })
        })
        .await
    }

    async fn inbox_status(&self) -> Result<Vec<InboxStatus>, StoreError> {
        self.call("inbox_status", |connection| {
            Box::pin(async move {
                let rows =
                    query(include_str!("../sql/inbox_status.sql")).fetch_all(connection).await?;
                rows.iter().map(status).collect()
            })
        })
        .await
    }
}

fn letter(consumer: &str, row: &PgRow) -> Result<Letter, Fault> {
    let letter = Letter {
        consumer: consumer.to_owned(),
        message: row::message(row)?,
        attempts: number(row, MORE)?,
        provenance: Provenance {
            redriven: number(row, MORE + 1)?,
            source: row.try_get(MORE + 2)?,
            seq: row.try_get(MORE + 3)?,
            ..Provenance::default()
        },
    };
    Ok(letter.restored())
}

async fn purge(
    connection: &mut PgConnection,
    consumer: String,
    window: Duration,
    rows_max: u32,
) -> Result<InboxPurged, Fault> {
    let mut removed = [0; 2];
    let statements =
        [include_str!("../sql/inbox_purge.sql"), include_str!("../sql/inbox_purge_dead.sql")];
    for (removed, statement) in removed.iter_mut().zip(statements) {
        let delete = query(statement)
            .bind(&consumer)
            .bind(row::seconds(window))
            .bind(i64::from(rows_max))
            .execute(&mut *connection);
        *removed = delete.await?.rows_affected();
    }
    Ok(InboxPurged { ids: removed[0], discarded: removed[1] })
}

async fn adopt(
    connection: &mut PgConnection,
    consumer: String,
    source: String,
    log: Uuid,
    by: String,
) -> Result<bool, Fault> {
    let insert = query(include_str!("../sql/inbox_adopt_log.sql"))
        .bind(&consumer)
        .bind(&source)
        .bind(log)
        .bind(by);
    if insert.execute(&mut *connection).await?.rows_affected() > 0 {
        return Ok(true);
    }
    let is_known: bool = scalar(include_str!("../sql/inbox_read_log.sql"))
        .bind(&consumer)
        .bind(&source)
        .bind(log)
        .bind("")
        .fetch_one(connection)
        .await?;
    if is_known {
        return Ok(false);
    }
    Err(Fault::refused(format!(
        "consumer `{consumer}` has handled nothing of source `{source}` by position"
    )))
}

fn status(row: &PgRow) -> Result<InboxStatus, Fault> {
    let count = |index| Ok::<_, Fault>(row::count(row.try_get::<i64, _>(index)?));
    Ok(InboxStatus {
        consumer: row.try_get(0)?,
        oldest_id_age: row.try_get::<Option<f64>, _>(1)?.map(row::duration),
        lanes: count(2)?,
        tally: Tally { handled: count(3)?, reordered: count(4)?, impossible: count(5)? },
        dead: count(6)?,
    })
}
