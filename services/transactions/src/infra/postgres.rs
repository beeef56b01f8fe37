//! The ledger on PostgreSQL.

use async_trait::async_trait;
use posthaste::postgres::Outbox;
use sqlx::{PgConnection, PgPool, Row, query, query_scalar};
use uuid::Uuid;

use super::{created, number, status, unreadable};
use crate::{
    application::{Fingerprint, IdempotencyKey, Ledger, LedgerError, Recorded, StoredTransfer},
    domain::{Overdraft, Settlement, Status, Transfer, UserId},
};

/// Changes of the tables, in order.
pub(super) const MIGRATIONS: &[(&str, &str)] =
    &[("transactions", include_str!("../../migrations/postgres/0001_transactions.sql"))];

/// Transfers and balances in PostgreSQL.
#[derive(Debug)]
pub struct PostgresLedger {
    pool: PgPool,
}

impl PostgresLedger {
    /// In the pool's database.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }
}

#[async_trait]
impl Ledger for PostgresLedger {
    async fn record(
        &self,
        transfer: &Transfer,
        key: Option<(&IdempotencyKey, Fingerprint)>,
    ) -> Result<Recorded, LedgerError> {
        let mut tx = self.pool.begin().await?;
        let inserted = query(include_str!("../../sql/postgres/record.sql"))
            .bind(transfer.id)
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
        let row = query(include_str!("../../sql/postgres/find_by_key.sql"))
            .bind(transfer.from.as_str())
            .bind(key.as_str())
            .fetch_one(&mut *tx)
            .await?;
        tx.rollback().await?;
        let stored = StoredTransfer { id: row.try_get(0)?, status: status(row.try_get(1)?)? };
        let bytes: &[u8] = row.try_get(2)?;
        let bytes = bytes.try_into().map_err(|_| unreadable("fingerprint"))?;
        Ok(Recorded::Existing(stored, Fingerprint(bytes)))
    }

    async fn find(&self, id: Uuid) -> Result<Option<StoredTransfer>, LedgerError> {
        let found: Option<String> = query_scalar(include_str!("../../sql/postgres/find.sql"))
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        found.map(|text| Ok(StoredTransfer { id, status: status(&text)? })).transpose()
    }

    async fn balance(&self, user: &UserId) -> Result<i128, LedgerError> {
        let found: Option<String> = query_scalar(include_str!("../../sql/postgres/balance.sql"))
            .bind(user.as_str())
            .fetch_optional(&self.pool)
            .await?;
        found.map_or(Ok(0), |text| number(&text))
    }

    async fn begin(&self, id: Uuid) -> Result<(), LedgerError> {
        query(include_str!("../../sql/postgres/begin.sql")).bind(id).execute(&self.pool).await?;
        Ok(())
    }

    async fn check(&self) -> Result<(), LedgerError> {
        query(include_str!("../../sql/postgres/check.sql")).execute(&self.pool).await?;
        Ok(())
    }
}

/// [`Settles::settle`](super::Settles::settle).
pub(super) async fn settle(
    connection: &mut PgConnection,
    id: Uuid,
    overdraft: Overdraft,
) -> Result<Option<Status>, LedgerError> {
    let row = query(include_str!("../../sql/postgres/lock_transfer.sql"))
        .bind(id)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let before = status(row.try_get(0)?)?;
    if before.is_final() {
        return Ok(Some(before));
    }
    let (from, to): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
    let mut sender = 0;
    for user in [from.min(to), from.max(to)] {
        let balance = open_balance(connection, user).await?;
        if user == from {
            sender = balance;
        }
    }
    let settlement = Settlement::decide(row.try_get(1)?, sender, overdraft);
    if settlement.moved != 0 {
        for (user, sum) in [(from, -settlement.moved), (to, settlement.moved)] {
            query(include_str!("../../sql/postgres/move_balance.sql"))
                .bind(user)
                .bind(sum.to_string())
                .execute(&mut *connection)
                .await?;
        }
    }
    query(include_str!("../../sql/postgres/settle.sql"))
        .bind(id)
        .bind(settlement.status.as_str())
        .execute(connection)
        .await?;
    Ok(Some(settlement.status))
}

async fn open_balance(connection: &mut PgConnection, user: &str) -> Result<i128, LedgerError> {
    let text: String = query_scalar(include_str!("../../sql/postgres/open_balance.sql"))
        .bind(user)
        .fetch_one(connection)
        .await?;
    number(&text)
}
