//! The inbox for runners and tools: dead letters of consumers, retention, logs, the picture.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::{
    InboxPurged, InboxStatus, InboxStore, Letter, ParkedFilter, ParkedView, Provenance, StoreError,
    Tally,
};
use uuid::Uuid;

use crate::{
    Dialect, Fault, Param, Row, Session, SqlStore, Statement, call,
    message::{self, MORE},
    params,
    parked::{filter_params, view},
};

#[async_trait]
impl<D: Dialect> InboxStore for SqlStore<D> {
    async fn letters(
        &self,
        filter: &ParkedFilter,
        limit: u32,
    ) -> Result<Vec<ParkedView>, StoreError> {
        let argument = (filter.clone(), limit);
        call!(self, "letters", Statements, argument, |session, (filter, limit)| {
            letters(session, filter, *limit)
        })
        .await
    }

    async fn redrive_letters(&self, filter: &ParkedFilter, by: &str) -> Result<u64, StoreError> {
        let argument = (filter.clone(), by.to_owned());
        call!(self, "redrive_letters", Statements, argument, |session, (filter, by)| async {
            session.execute(Statement::InboxRedrive, &with(filter, params![by: by])).await
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
        call!(self, "discard_letters", Statements, argument, |session, (filter, by, why)| async {
            let discard = with(filter, params![by: by, why: why]);
            session.execute(Statement::InboxDiscard, &discard).await
        })
        .await
    }

    async fn due_letters(&self, consumer: &str, limit: u32) -> Result<Vec<Letter>, StoreError> {
        let argument = (consumer.to_owned(), limit);
        call!(self, "due_letters", Statements, argument, |session, (consumer, limit)| {
            due(session, consumer, *limit)
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
        call!(self, "purge_inbox", Statements, argument, |session, (consumer, window, rows_max)| {
            purge(session, consumer, *window, *rows_max)
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
        call!(self, "adopt_log", Statements, argument, |session, (consumer, source, log, by)| {
            adopt(session, consumer, source, *log, by)
        })
        .await
    }

    async fn forget_log(&self, consumer: &str, log: Uuid) -> Result<u64, StoreError> {
        let argument = (consumer.to_owned(), log);
        call!(self, "forget_log", Transaction, argument, |session, (consumer, log)| async {
            let of_log = params![consumer: consumer, log: *log];
            let lanes = session.execute(Statement::InboxForgetLog, &of_log).await?;
            session.execute(Statement::InboxForgetPages, &of_log).await?;
            Ok(lanes)
        })
        .await
    }

    async fn inbox_status(&self) -> Result<Vec<InboxStatus>, StoreError> {
        call!(self, "inbox_status", Statements, (), |session, ()| status(session)).await
    }
}

fn with<'p, const N: usize>(filter: &'p ParkedFilter, more: [Param<'p>; N]) -> Vec<Param<'p>> {
    let mut params = filter_params(filter);
    params.extend(more);
    params
}

async fn letters<D: Dialect>(
    session: &mut Session<'_, D>,
    filter: &ParkedFilter,
    limit: u32,
) -> Result<Vec<ParkedView>, Fault> {
    let matching = with(filter, params![limit: limit]);
    let rows = session.rows(Statement::InboxLetters, &matching).await?;
    rows.into_iter().map(|row| Ok(view(row)?.restored())).collect()
}

async fn due<D: Dialect>(
    session: &mut Session<'_, D>,
    consumer: &str,
    limit: u32,
) -> Result<Vec<Letter>, Fault> {
    let look = params![consumer: consumer, limit: limit];
    let rows = session.rows(Statement::InboxDue, &look).await?;
    rows.into_iter().map(|row| letter(consumer, row)).collect()
}

fn letter(consumer: &str, mut row: Row) -> Result<Letter, Fault> {
    let letter = Letter {
        consumer: consumer.to_owned(),
        attempts: row.number(MORE)?,
        provenance: Provenance {
            redriven: row.number(MORE + 1)?,
            source: row.text(MORE + 2)?,
            seq: row.int(MORE + 3)?,
            ..Provenance::default()
        },
        message: message::message(&mut row)?,
    };
    Ok(letter.restored())
}

async fn purge<D: Dialect>(
    session: &mut Session<'_, D>,
    consumer: &str,
    window: Duration,
    rows_max: u32,
) -> Result<InboxPurged, Fault> {
    let old = params![consumer: consumer, window: window, limit: rows_max];
    let ids = session.execute(Statement::InboxPurge, &old).await?;
    let discarded = session.execute(Statement::InboxPurgeDead, &old).await?;
    Ok(InboxPurged { ids, discarded })
}

async fn adopt<D: Dialect>(
    session: &mut Session<'_, D>,
    consumer: &str,
    source: &str,
    log: Uuid,
    by: &str,
) -> Result<bool, Fault> {
    let insert = params![consumer: consumer, source: source, log: log, by: by];
    if session.execute(Statement::InboxAdoptLog, &insert).await? > 0 {
        return Ok(true);
    }
    let known = params![consumer: consumer, source: source, log: log, topic: ""];
    let known = session.row(Statement::InboxReadLog, &known).await?;
    if known.map(|row| row.bool(0)).transpose()?.unwrap_or(false) {
        return Ok(false);
    }
    Err(Fault::refused(format!(
        "consumer `{consumer}` has handled nothing of source `{source}` by position"
    )))
}

async fn status<D: Dialect>(session: &mut Session<'_, D>) -> Result<Vec<InboxStatus>, Fault> {
    let consumer = |row: &Row| {
        Ok(InboxStatus {
            consumer: row.string(0)?,
            oldest_id_age: row.duration(1)?,
            lanes: row.count(2)?,
            tally: Tally {
                handled: row.count(3)?,
                reordered: row.count(4)?,
                impossible: row.count(5)?,
            },
            dead: row.count(6)?,
        })
    };
    session.rows(Statement::InboxStatus, &[]).await?.iter().map(consumer).collect()
}
