//! Compares the requested transfers with the database.

use std::collections::BTreeMap;

use sqlx::{PgPool, Row, query, query_scalar};

use crate::Asked;

/// Both sides.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Every transfer that was answered with an id. Grows with every fault.
    pub(super) asked: Vec<Asked>,
    /// Copies that consumers had dropped before they were killed.
    pub(super) copies_before: u64,
    pool: PgPool,
}

impl Ledger {
    pub(super) fn new(database: &str) -> anyhow::Result<Self> {
        Ok(Self { asked: Vec::new(), copies_before: 0, pool: PgPool::connect_lazy(database)? })
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    pub(super) async fn settled(&self) -> anyhow::Result<usize> {
        let count: i64 =
            query_scalar(include_str!("../../sql/count_settled.sql")).fetch_one(&self.pool).await?;
        Ok(usize::try_from(count)?)
    }

    pub(super) async fn statuses(&self) -> anyhow::Result<Vec<(String, usize)>> {
        let rows =
            query(include_str!("../../sql/count_statuses.sql")).fetch_all(&self.pool).await?;
        let read = |row: &sqlx::postgres::PgRow| {
            anyhow::Ok((row.try_get(0)?, usize::try_from(row.try_get::<i64, _>(1)?)?))
        };
        rows.iter().map(read).collect()
    }

    /// Events recorded, and given up.
    pub(super) async fn handled(&self) -> anyhow::Result<(usize, usize)> {
        let row = query(include_str!("../../sql/count_handled.sql")).fetch_one(&self.pool).await?;
        let count = |index: usize| anyhow::Ok(usize::try_from(row.try_get::<i64, _>(index)?)?);
        Ok((count(0)?, count(1)?))
    }

    /// Balances that are not zero.
    pub(super) async fn balances(&self) -> anyhow::Result<BTreeMap<String, i128>> {
        let rows = query(include_str!("../../sql/list_balances.sql")).fetch_all(&self.pool).await?;
        let read = |row: &sqlx::postgres::PgRow| {
            anyhow::Ok((row.try_get(0)?, row.try_get::<String, _>(1)?.parse()?))
        };
        rows.iter().map(read).collect()
    }

    /// What they must be if each transfer was completed once.
    pub(super) fn expected(&self) -> BTreeMap<String, i128> {
        let mut sums = BTreeMap::new();
        for Asked { from, to, amount, .. } in &self.asked {
            *sums.entry(from.clone()).or_default() -= i128::from(*amount);
            *sums.entry(to.clone()).or_default() += i128::from(*amount);
        }
        sums.retain(|_, sum| *sum != 0);
        sums
    }
}
