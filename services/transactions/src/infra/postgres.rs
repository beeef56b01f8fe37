//! The ledger on PostgreSQL.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use posthaste::postgres::Outbox;
use sqlx::{PgConnection, PgPool, Row, query, query_as, query_scalar};
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

    async fn begin(&self, ids: &[Uuid]) -> Result<(), LedgerError> {
        query(include_str!("../../sql/postgres/begin.sql")).bind(ids).execute(&self.pool).await?;
        Ok(())
    }

    async fn check(&self) -> Result<(), LedgerError> {
        query(include_str!("../../sql/postgres/check.sql")).execute(&self.pool).await?;
        Ok(())
    }
}

/// A transfer that is locked.
struct Locked {
    status: Status,
    amount: i64,
    from: String,
    to: String,
}

/// [`Settles::settle`](super::Settles::settle): three statements, however many transfers there are. Nobody
/// else can change what is read here until the commit.
pub(super) async fn settle(
    connection: &mut PgConnection,
    ids: &[Uuid],
    overdraft: Overdraft,
) -> Result<Vec<Option<Status>>, LedgerError> {
    let mut transfers = lock_transfers(connection, ids).await?;
    let open = transfers.values().filter(|transfer| !transfer.status.is_final());
    let users: BTreeSet<&str> = open.flat_map(|it| [&*it.from, &*it.to]).collect();
    let mut balances = open_balances(connection, &users.into_iter().collect::<Vec<_>>()).await?;
    let mut settled = Vec::new();
    for id in ids {
        let Some(transfer) = transfers.get_mut(id).filter(|it| !it.status.is_final()) else {
            continue;
        };
        let balance = |user: &str| balances.get(user).copied().ok_or_else(|| unreadable("user"));
        let (sender, receiver) = (balance(&transfer.from)?, balance(&transfer.to)?);
        let Settlement { status, moved } = Settlement::decide(transfer.amount, sender, overdraft);
        balances.insert(transfer.from.clone(), sender - moved);
        balances.insert(transfer.to.clone(), receiver + moved);
        transfer.status = status;
        settled.push((*id, status));
    }
    if !settled.is_empty() {
        write(connection, &settled, &balances).await?;
    }
    Ok(ids.iter().map(|id| transfers.get(id).map(|transfer| transfer.status)).collect())
}

async fn lock_transfers(
    connection: &mut PgConnection,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Locked>, LedgerError> {
    let rows = query(include_str!("../../sql/postgres/lock_transfers.sql"))
        .bind(ids)
        .fetch_all(connection)
        .await?;
    let locked = rows.iter().map(|row| {
        let status = status(row.try_get(1)?)?;
        let (amount, from, to) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        Ok((row.try_get(0)?, Locked { status, amount, from, to }))
    });
    locked.collect()
}

async fn open_balances(
    connection: &mut PgConnection,
    users: &[&str],
) -> Result<HashMap<String, i128>, LedgerError> {
    if users.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(String, String)> =
        query_as(include_str!("../../sql/postgres/open_balances.sql"))
            .bind(users)
            .fetch_all(connection)
            .await?;
    rows.into_iter().map(|(user, text)| Ok((user, number(&text)?))).collect()
}

async fn write(
    connection: &mut PgConnection,
    settled: &[(Uuid, Status)],
    balances: &HashMap<String, i128>,
) -> Result<(), LedgerError> {
    let (ids, statuses): (Vec<_>, Vec<_>) =
        settled.iter().map(|(id, status)| (*id, status.as_str())).unzip();
    let (users, sums): (Vec<_>, Vec<_>) =
        balances.iter().map(|(user, sum)| (&**user, sum.to_string())).unzip();
    query(include_str!("../../sql/postgres/settle.sql"))
        .bind(ids)
        .bind(statuses)
        .bind(users)
        .bind(sums)
        .execute(connection)
        .await?;
    Ok(())
}
