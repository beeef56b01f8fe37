//! The ledger in an SQLite file. There is one writer at a time, so what is read under the write lock
//! stays true until the commit.

use async_trait::async_trait;
use posthaste::sqlite::Outbox;
use sqlx::{Row, Sqlite, SqliteConnection, SqlitePool, Transaction, query, query_scalar};
use uuid::Uuid;

use super::{created, number, status, unreadable};
use crate::{
    application::{Fingerprint, IdempotencyKey, Ledger, LedgerError, Recorded, StoredTransfer},
    domain::{Overdraft, Settlement, Status, Transfer, UserId},
};

/// Changes of the tables, in order.
pub(super) const MIGRATIONS: &[(&str, &str)] =
    &[("transactions", include_str!("../../migrations/sqlite/0001_transactions.sql"))];

/// Transfers and balances in SQLite.
#[derive(Debug)]
pub struct SqliteLedger {
    pool: SqlitePool,
}

impl SqliteLedger {
    /// In the pool's file.
    #[must_use]
    pub fn new(pool: SqlitePool) -> Self {
        Self { pool }
    }

    /// A transaction that has the write lock from its start: it cannot fail half-way because another
    /// one wrote in between.
    async fn write(&self) -> Result<Transaction<'_, Sqlite>, LedgerError> {
        Ok(self.pool.begin_with("BEGIN IMMEDIATE").await?)
    }
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn record(
        &self,
        transfer: &Transfer,
        key: Option<(&IdempotencyKey, Fingerprint)>,
    ) -> Result<Recorded, LedgerError> {
        let mut tx = self.write().await?;
        let inserted = query(include_str!("../../sql/sqlite/record.sql"))
            .bind(transfer.id.to_string())
            .bind(transfer.amount)
            .bind(&transfer.description)
            .bind(transfer.from.as_str())
            .bind(transfer.to.as_str())
            .bind(key.map(|(key, _)| key.as_str()))
            .bind(key.map(|(_, fingerprint)| fingerprint.0.to_vec()))
            .execute(&mut *tx)
            .await?;
        if inserted.rows_affected() == 1 {
            Outbox::new().enqueue(&mut tx, created(transfer)?).await?;
            tx.commit().await?;
            return Ok(Recorded::New);
        }
        let (key, _) = key.ok_or_else(|| unreadable("transfer"))?;
        let row = query(include_str!("../../sql/sqlite/find_by_key.sql"))
            .bind(transfer.from.as_str())
            .bind(key.as_str())
            .fetch_one(&mut *tx)
            .await?;
        tx.rollback().await?;
        let id = Uuid::try_parse(row.try_get(0)?).map_err(|_| unreadable("id"))?;
        let stored = StoredTransfer { id, status: status(row.try_get(1)?)? };
        let bytes: &[u8] = row.try_get(2)?;
        let bytes = bytes.try_into().map_err(|_| unreadable("fingerprint"))?;
        Ok(Recorded::Existing(stored, Fingerprint(bytes)))
    }

    async fn find(&self, id: Uuid) -> Result<Option<StoredTransfer>, LedgerError> {
        let found: Option<String> = query_scalar(include_str!("../../sql/sqlite/find.sql"))
            .bind(id.to_string())
            .fetch_optional(&self.pool)
            .await?;
        found.map(|text| Ok(StoredTransfer { id, status: status(&text)? })).transpose()
    }

    async fn balance(&self, user: &UserId) -> Result<i128, LedgerError> {
        let mut connection = self.pool.acquire().await?;
        balance(&mut connection, user.as_str()).await
    }

    async fn begin(&self, ids: &[Uuid]) -> Result<(), LedgerError> {
        for id in ids {
            query(include_str!("../../sql/sqlite/begin.sql"))
                .bind(id.to_string())
                .execute(&self.pool)
                .await?;
        }
        Ok(())
    }

    async fn check(&self) -> Result<(), LedgerError> {
        query(include_str!("../../sql/sqlite/check.sql")).execute(&self.pool).await?;
        Ok(())
    }
}

/// [`Settles::settle`](super::Settles::settle): one after another, since a statement costs no journey here.
pub(super) async fn settle(
    connection: &mut SqliteConnection,
    ids: &[Uuid],
    overdraft: Overdraft,
) -> Result<Vec<Option<Status>>, LedgerError> {
    let mut statuses = Vec::new();
    for id in ids {
        statuses.push(settle_one(connection, *id, overdraft).await?);
    }
    Ok(statuses)
}

async fn settle_one(
    connection: &mut SqliteConnection,
    id: Uuid,
    overdraft: Overdraft,
) -> Result<Option<Status>, LedgerError> {
    let row = query(include_str!("../../sql/sqlite/lock_transfer.sql"))
        .bind(id.to_string())
        .fetch_optional(&mut *connection)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let before = status(row.try_get(0)?)?;
    if before.is_final() {
        return Ok(Some(before));
    }
    let (from, to): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
    let sender = balance(connection, from).await?;
    let settlement = Settlement::decide(row.try_get(1)?, sender, overdraft);
    if settlement.moved != 0 {
        let receiver = balance(connection, to).await?;
        for (user, sum) in [(from, sender - settlement.moved), (to, receiver + settlement.moved)] {
            query(include_str!("../../sql/sqlite/move_balance.sql"))
                .bind(user)
                .bind(sum.to_string())
                .execute(&mut *connection)
                .await?;
        }
    }
    query(include_str!("../../sql/sqlite/settle.sql"))
        .bind(id.to_string())
        .bind(settlement.status.as_str())
        .execute(connection)
        .await?;
    Ok(Some(settlement.status))
}

async fn balance(connection: &mut SqliteConnection, user: &str) -> Result<i128, LedgerError> {
    let found: Option<String> = query_scalar(include_str!("../../sql/sqlite/balance.sql"))
        .bind(user)
        .fetch_optional(connection)
        .await?;
    found.map_or(Ok(0), |text| number(&text))
}
