//! The inbox for runners and tools: dead letters of consumers, retention, logs, the picture.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::{
    InboxPurged, InboxStatus, InboxStore, Letter, ParkedFilter, ParkedView, Provenance, StoreError,
    Tally,
};
use sqlx::{
    Row, Sqlite, SqliteConnection,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};
use uuid::Uuid;

use crate::{
    SqliteStore,
    error::Fault,
    parked::{ids, view},
    row,
};

#[async_trait]
impl InboxStore for SqliteStore {
    async fn letters(
        &self,
        filter: &ParkedFilter,
        limit: u32,
    ) -> Result<Vec<ParkedView>, StoreError> {
        let filter = filter.clone();
        self.tasks
            .run("letters", move |conn| {
                Box::pin(async move {
                    let rows = filtered(include_str!("../sql/inbox_letters.sql"), &filter)
                        .bind(limit)
                        .fetch_all(conn)
                        .await?;
                    rows.iter().map(|row| Ok(view(row)?.restored())).collect()
                })
            })
            .await
    }

    async fn redrive_letters(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        let (filter, by) = (filter.clone(), by.to_owned());
        self.tasks
            .write("redrive_letters", move |conn| {
                Box::pin(async move {
                    let update = filtered(include_str!("../sql/inbox_redrive.sql"), &filter);
                    Ok(update.bind(by).execute(conn).await?.rows_affected())
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
        self.tasks
            .write("discard_letters", move |conn| {
                Box::pin(async move {
                    let update = filtered(include_str!("../sql/inbox_discard.sql"), &filter);
                    Ok(update.bind(by).bind(why).execute(conn).await?.rows_affected())
                })
            })
            .await
    }

    async fn due_letters(&self, consumer: &str, limit: u32) -> Result<Vec<Letter>, StoreError> {
        let consumer = consumer.to_owned();
        self.tasks
            .run("due_letters", move |conn| {
                Box::pin(async move {
                    let rows = sqlx::query(include_str!("../sql/inbox_due.sql"))
                        .bind(&consumer)
                        .bind(limit)
                        .fetch_all(conn)
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
        self.tasks
            .write("purge_inbox", move |conn| {
                Box::pin(async move { purge(conn, &consumer, window, rows_max).await })
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
        self.tasks
            .write("adopt_log", move |conn| {
                Box::pin(async move { adopt(conn, &consumer, &source, log, &by).await })
            })
            .await
    }

    async fn forget_log(&self, consumer: &str, log: Uuid) -> Result<u64, StoreError> {
        let consumer = consumer.to_owned();
        self.tasks
            .write("forget_log", move |conn| {
                Box::pin(async move {
                    let forget = sqlx::query(include_str!("../sql/inbox_forget_log.sql"))
                        .bind(&consumer)
                        .bind(log.to_string());
                    let lanes = forget.execute(&mut *conn).await?.rows_affected();
                    let pages = sqlx::query(include_str!("../sql/inbox_forget_pages.sql"))
                        .bind(&consumer)
                        .bind(log.to_string());
                    pages.execute(conn).await?;
                    Ok(lanes)
                })
            })
            .await
    }

    async fn inbox_status(&self) -> Result<Vec<InboxStatus>, StoreError> {
        self.tasks
            .run("inbox_status", move |conn| {
                Box::pin(async move {
                    let status = sqlx::query(include_str!("../sql/inbox_status.sql"));
                    status.fetch_all(conn).await?.iter().map(consumer).collect()
                })
            })
            .await
    }
}

fn letter(consumer: &str, row: &SqliteRow) -> Result<Letter, Fault> {
    let letter = Letter {
        consumer: consumer.to_owned(),
        message: row::message(row)?,
        attempts: row.try_get("attempts")?,
        provenance: Provenance {
            redriven: row.try_get("redriven")?,
            source: row::text(row, "source")?,
            seq: row.try_get("seq")?,
            ..Provenance::default()
        },
    };
    Ok(letter.restored())
}

async fn purge(
    conn: &mut SqliteConnection,
    consumer: &str,
    window: Duration,
    rows_max: u32,
) -> Result<InboxPurged, Fault> {
    let mut removed = [0; 2];
    let statements =
        [include_str!("../sql/inbox_purge.sql"), include_str!("../sql/inbox_purge_dead.sql")];
    for (removed, statement) in removed.iter_mut().zip(statements) {
        let delete =
            sqlx::query(statement).bind(consumer).bind(window.as_secs_f64()).bind(rows_max);
        *removed = delete.execute(&mut *conn).await?.rows_affected();
    }
    Ok(InboxPurged { ids: removed[0], discarded: removed[1] })
}

async fn adopt(
    conn: &mut SqliteConnection,
    consumer: &str,
    source: &str,
    log: Uuid,
    by: &str,
) -> Result<bool, Fault> {
    let insert = sqlx::query(include_str!("../sql/inbox_adopt_log.sql"))
        .bind(consumer)
        .bind(source)
        .bind(log.to_string())
        .bind(by);
    if insert.execute(&mut *conn).await?.rows_affected() > 0 {
        return Ok(true);
    }
    let is_known: bool = sqlx::query_scalar(include_str!("../sql/inbox_read_log.sql"))
        .bind(consumer)
        .bind(source)
        .bind(log.to_string())
        .bind("")
        .fetch_one(conn)
        .await?;
    if is_known {
        return Ok(false);
    }
    Err(Fault::refused(format!(
        "consumer `{consumer}` has handled nothing of source `{source}` by position"
    )))
}

fn consumer(row: &SqliteRow) -> Result<InboxStatus, Fault> {
    let count = |name: &str| Ok::<_, Fault>(row.try_get::<i64, _>(name)?.unsigned_abs());
    Ok(InboxStatus {
        consumer: row.try_get("consumer")?,
        oldest_id_age: row.try_get::<Option<f64>, _>("oldest_id_age")?.map(row::seconds),
        lanes: count("lanes")?,
        tally: Tally {
            handled: count("handled")?,
            reordered: count("reordered")?,
            impossible: count("impossible")?,
        },
        dead: count("dead")?,
    })
}

/// A statement whose first four parameters are the filter.
fn filtered(sql: &'static str, filter: &ParkedFilter) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(sql)
        .bind(filter.route.clone())
        .bind(ids(filter))
        .bind(filter.topic.clone())
        .bind(filter.class.clone())
}
