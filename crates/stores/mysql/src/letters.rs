//! The inbox for runners and tools: dead letters of consumers, retention, logs, the picture.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::{
    InboxPurged, InboxStatus, InboxStore, Letter, ParkedFilter, ParkedView, Provenance, StoreError,
    Tally,
};
use sqlx::{
    MySql, MySqlConnection, Row,
    mysql::{MySqlArguments, MySqlRow},
    query::Query,
};
use uuid::Uuid;

use crate::{
    MySqlStore,
    error::Fault,
    parked::{Filter, view},
    row::{self, MORE},
};

#[async_trait]
impl InboxStore for MySqlStore {
    async fn letters(
        &self,
        filter: &ParkedFilter,
        limit: u32,
    ) -> Result<Vec<ParkedView>, StoreError> {
        self.statements("letters", (filter.clone(), limit), |connection, argument| {
            Box::pin(async move {
                let filter = Filter::of(&argument.0);
                let select = sqlx::query(include_str!("../sql/inbox_letters.sql"));
                let rows = filtered(select.bind(filter.ids.clone()), filter)
                    .bind(argument.1)
                    .fetch_all(connection)
                    .await?;
                rows.iter().map(|row| Ok(view(row)?.restored())).collect()
            })
        })
        .await
    }

    async fn redrive_letters(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        let argument = (filter.clone(), by.to_owned());
        self.statements("redrive_letters", argument, |connection, argument| {
            Box::pin(async move {
                let update = sqlx::query(include_str!("../sql/inbox_redrive.sql"))
                    .bind(argument.1.as_bytes().to_vec());
                let update = filtered(update, Filter::of(&argument.0));
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
        let argument = (filter.clone(), by.to_owned(), why.to_owned());
        self.statements("discard_letters", argument, |connection, argument| {
            Box::pin(async move {
                let update = sqlx::query(include_str!("../sql/inbox_discard.sql"))
                    .bind(argument.1.as_bytes().to_vec())
                    .bind(argument.2.as_bytes().to_vec());
                let update = filtered(update, Filter::of(&argument.0));
                Ok(update.execute(connection).await?.rows_affected())
            })
        })
        .await
    }

    async fn due_letters(&self, consumer: &str, limit: u32) -> Result<Vec<Letter>, StoreError> {
        self.statements("due_letters", (consumer.to_owned(), limit), |connection, argument| {
            Box::pin(async move {
                let rows = sqlx::query(include_str!("../sql/inbox_due.sql"))
                    .bind(argument.0.as_bytes())
                    .bind(argument.1)
                    .fetch_all(connection)
                    .await?;
                rows.iter().map(|row| letter(&argument.0, row)).collect()
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
        let argument = (consumer.to_owned(), window, rows_max);
        self.statements("purge_inbox", argument, |connection, argument| {
            Box::pin(async move {
                let (consumer, window, rows_max) = &*argument;
                purge(connection, consumer, *window, *rows_max).await
            })
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
        let argument = (consumer.to_owned(), source.to_owned(), log, by.to_owned());
        self.statements("adopt_log", argument, |connection, argument| {
            Box::pin(async move {
                let (consumer, source, log, by) = &*argument;
                adopt(connection, consumer, source, *log, by).await
            })
        })
        .await
    }

    async fn forget_log(&self, consumer: &str, log: Uuid) -> Result<u64, StoreError> {
        let argument = (consumer.to_owned(), log);
        self.transaction("forget_log", argument, |connection, argument| {
            Box::pin(async move {
                let of_log = |sql: &'static str| {
                    let (consumer, log) = (argument.0.as_bytes(), argument.1.as_bytes());
                    sqlx::query(sql).bind(consumer.to_vec()).bind(log.to_vec())
                };
                let lanes = of_log(include_str!("../sql/inbox_forget_log.sql"));
                let lanes = lanes.execute(&mut *connection).await?.rows_affected();
                let pages = of_log(include_str!("../sql/inbox_forget_pages.sql"));
                pages.execute(connection).await?;
                Ok(lanes)
            })
        })
        .await
    }

    async fn inbox_status(&self) -> Result<Vec<InboxStatus>, StoreError> {
        self.statements("inbox_status", (), |connection, _| {
            Box::pin(async move {
                let status = sqlx::query(include_str!("../sql/inbox_status.sql"));
                status.fetch_all(connection).await?.iter().map(consumer).collect()
            })
        })
        .await
    }
}

fn letter(consumer: &str, row: &MySqlRow) -> Result<Letter, Fault> {
    let letter = Letter {
        consumer: consumer.to_owned(),
        message: row::message(row)?,
        attempts: row.try_get(MORE)?,
        provenance: Provenance {
            redriven: row.try_get(MORE + 1)?,
            source: row::text(row, MORE + 2)?,
            seq: row.try_get(MORE + 3)?,
            ..Provenance::default()
        },
    };
    Ok(letter.restored())
}

async fn purge(
    connection: &mut MySqlConnection,
    consumer: &str,
    window: Duration,
    rows_max: u32,
) -> Result<InboxPurged, Fault> {
    let mut removed = [0; 2];
    let statements =
        [include_str!("../sql/inbox_purge.sql"), include_str!("../sql/inbox_purge_dead.sql")];
    for (removed, statement) in removed.iter_mut().zip(statements) {
        let delete = sqlx::query(statement)
            .bind(consumer.as_bytes())
            .bind(row::micros(window))
            .bind(rows_max);
        *removed = delete.execute(&mut *connection).await?.rows_affected();
    }
    Ok(InboxPurged { ids: removed[0], discarded: removed[1] })
}

async fn adopt(
    connection: &mut MySqlConnection,
    consumer: &str,
    source: &str,
    log: Uuid,
    by: &str,
) -> Result<bool, Fault> {
    let insert = sqlx::query(include_str!("../sql/inbox_adopt_log.sql"))
        .bind(consumer.as_bytes())
        .bind(source.as_bytes())
        .bind(log.as_bytes().to_vec())
        .bind(by.as_bytes())
        .bind(consumer.as_bytes())
        .bind(source.as_bytes());
    if insert.execute(&mut *connection).await?.rows_affected() > 0 {
        return Ok(true);
    }
    let known: i64 = sqlx::query_scalar(include_str!("../sql/inbox_read_log.sql"))
        .bind(log.as_bytes().to_vec())
        .bind(consumer.as_bytes())
        .bind(source.as_bytes())
        .bind("")
        .fetch_one(connection)
        .await?;
    if known > 0 {
        return Ok(false);
    }
    Err(Fault::refused(format!(
        "consumer `{consumer}` has handled nothing of source `{source}` by position"
    )))
}

fn consumer(row: &MySqlRow) -> Result<InboxStatus, Fault> {
    let count = |index| Ok::<_, Fault>(row::count(row.try_get(index)?));
    Ok(InboxStatus {
        consumer: row::text(row, 0)?.unwrap_or_default(),
        oldest_id_age: row.try_get::<Option<i64>, _>(1)?.map(row::duration),
        lanes: count(2)?,
        tally: Tally { handled: count(3)?, reordered: count(4)?, impossible: count(5)? },
        dead: count(6)?,
    })
}

/// The same statement with the filter as its next parameters.
fn filtered<'q>(
    query: Query<'q, MySql, MySqlArguments>,
    filter: Filter,
) -> Query<'q, MySql, MySqlArguments> {
    query
        .bind(filter.route.clone())
        .bind(filter.route)
        .bind(filter.ids.clone())
        .bind(filter.ids)
        .bind(filter.topic.clone())
        .bind(filter.topic)
        .bind(filter.class.clone())
        .bind(filter.class)
}
