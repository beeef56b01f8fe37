//! The ledger on PostgreSQL.

use std::collections::{BTreeSet, HashMap, HashSet};

use async_trait::async_trait;
use posthaste::postgres::Outbox;
use services_web::database::{self, CALL_TIMEOUT};
use sqlx::{
    Connection, PgConnection, PgPool, Postgres, Row, postgres::PgArguments, query, query::Query,
    query_as, query_scalar,
};
use uuid::Uuid;

use super::{
    created,
    line::Line,
    number, status,
    together::{Kind, Together},
    unreadable,
};
use crate::{
    application::{Fingerprint, IdempotencyKey, Ledger, LedgerError, Recorded, StoredTransfer},
    domain::{Overdraft, Settlement, Status, Transfer, UserId},
};

/// Changes of the tables, in order.
pub(super) const MIGRATIONS: &[(&str, &str)] =
    &[("transactions", include_str!("../../migrations/postgres/0001_transactions.sql"))];

/// Transfers and balances in PostgreSQL. Calls of the API that come at once share statements.
pub struct PostgresLedger {
    pool: PgPool,
    records: Together<Records>,
    statuses: Together<Statuses>,
    balances: Together<Balances>,
}

impl PostgresLedger {
    /// In the pool's database. It needs a runtime.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self {
            records: Together::new(Records(Line::new(pool.clone()))),
            statuses: Together::new(Statuses(Line::new(pool.clone()))),
            balances: Together::new(Balances(Line::new(pool.clone()))),
            pool,
        }
    }

    /// A statement that shares nothing.
    async fn execute(
        &self,
        statement: Query<'static, Postgres, PgArguments>,
    ) -> Result<(), LedgerError> {
        database::call(&self.pool, CALL_TIMEOUT, |connection| {
            Box::pin(async move {
                statement.execute(connection).await?;
                Ok(())
            })
        })
        .await
    }
}

#[async_trait]
impl Ledger for PostgresLedger {
    async fn record(
        &self,
        transfer: &Transfer,
        key: Option<(&IdempotencyKey, Fingerprint)>,
    ) -> Result<Recorded, LedgerError> {
        let key = key.map(|(key, fingerprint)| (key.clone(), fingerprint));
        self.records.ask((transfer.clone(), key)).await
    }

    async fn find(&self, id: Uuid) -> Result<Option<StoredTransfer>, LedgerError> {
        let status = self.statuses.ask(id).await?;
        Ok(status.map(|status| StoredTransfer { id, status }))
    }

    async fn balance(&self, user: &UserId) -> Result<i128, LedgerError> {
        self.balances.ask(user.as_str().to_owned()).await
    }

    async fn begin(&self, ids: &[Uuid]) -> Result<(), LedgerError> {
        let ids = ids.to_vec();
        self.execute(query(include_str!("../../sql/postgres/begin.sql")).bind(ids)).await
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.execute(query(include_str!("../../sql/postgres/check.sql"))).await
    }
}

/// Recording transfers, with their events, by one commit.
struct Records(Line);

impl Kind for Records {
    type Ask = (Transfer, Option<(IdempotencyKey, Fingerprint)>);
    type Answer = Recorded;

    async fn answer(&self, asks: &[Self::Ask]) -> Result<Vec<Recorded>, LedgerError> {
        self.0.call(async |connection| record(connection, asks).await).await
    }
}

async fn record(
    connection: &mut PgConnection,
    asks: &[<Records as Kind>::Ask],
) -> Result<Vec<Recorded>, LedgerError> {
    let mut tx = connection.begin().await?;
    let new = insert(&mut tx, asks).await?;
    let is_new = |ask: &&<Records as Kind>::Ask| new.contains(&ask.0.id);
    let events = asks.iter().filter(is_new).map(|(transfer, _)| created(transfer));
    let events = events.collect::<Result<Vec<_>, _>>()?;
    Outbox::new().enqueue_all(&mut tx, events).await?;
    let mut recorded = Vec::new();
    for ask in asks {
        recorded.push(match &ask.1 {
            _ if is_new(&ask) => Recorded::New,
            Some((key, _)) => find_by_key(&mut tx, &ask.0.from, key).await?,
            None => return Err(unreadable("transfer")),
        });
    }
    tx.commit().await?;
    Ok(recorded)
}

/// Which of the transfers are new.
async fn insert(
    connection: &mut PgConnection,
    asks: &[<Records as Kind>::Ask],
) -> Result<HashSet<Uuid>, LedgerError> {
    let mut sorted: Vec<_> = asks.iter().collect();
    let key = |ask: &<Records as Kind>::Ask| ask.1.as_ref().map(|(key, _)| key.as_str().to_owned());
    sorted.sort_by_cached_key(|ask| (ask.0.from.clone(), key(ask)));
    let of = |it: fn(&Transfer) -> &str| sorted.iter().map(|(ask, _)| it(ask)).collect::<Vec<_>>();
    let fingerprint = |ask: &&<Records as Kind>::Ask| ask.1.as_ref().map(|(_, it)| it.0.to_vec());
    let new: Vec<Uuid> = query_scalar(include_str!("../../sql/postgres/record.sql"))
        .bind(sorted.iter().map(|ask| ask.0.id).collect::<Vec<_>>())
        .bind(sorted.iter().map(|ask| ask.0.amount).collect::<Vec<_>>())
        .bind(of(|transfer| &transfer.description))
        .bind(of(|transfer| transfer.from.as_str()))
        .bind(of(|transfer| transfer.to.as_str()))
        .bind(sorted.iter().map(|ask| key(ask)).collect::<Vec<_>>())
        .bind(sorted.iter().map(fingerprint).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    Ok(new.into_iter().collect())
}

async fn find_by_key(
    connection: &mut PgConnection,
    from: &UserId,
    key: &IdempotencyKey,
) -> Result<Recorded, LedgerError> {
    let row = query(include_str!("../../sql/postgres/find_by_key.sql"))
        .bind(from.as_str())
        .bind(key.as_str())
        .fetch_one(connection)
        .await?;
    let stored = StoredTransfer { id: row.try_get(0)?, status: status(row.try_get(1)?)? };
    let bytes: &[u8] = row.try_get(2)?;
    let bytes = bytes.try_into().map_err(|_| unreadable("fingerprint"))?;
    Ok(Recorded::Existing(stored, Fingerprint(bytes)))
}

/// The status of transfers.
struct Statuses(Line);

impl Kind for Statuses {
    type Ask = Uuid;
    type Answer = Option<Status>;

    async fn answer(&self, ids: &[Uuid]) -> Result<Vec<Option<Status>>, LedgerError> {
        let find = async |connection: &mut PgConnection| {
            let find = query_as(include_str!("../../sql/postgres/find.sql")).bind(ids);
            Ok(find.fetch_all(connection).await?)
        };
        let rows: Vec<(Uuid, String)> = self.0.call(find).await?;
        let found = rows.into_iter().map(|(id, text)| Ok((id, status(&text)?)));
        let found = found.collect::<Result<HashMap<_, _>, LedgerError>>()?;
        Ok(ids.iter().map(|id| found.get(id).copied()).collect())
    }
}

/// The balances of users.
struct Balances(Line);

impl Kind for Balances {
    type Ask = String;
    type Answer = i128;

    async fn answer(&self, users: &[String]) -> Result<Vec<i128>, LedgerError> {
        let find = async |connection: &mut PgConnection| {
            let find = query_as(include_str!("../../sql/postgres/balance.sql")).bind(users);
            Ok(find.fetch_all(connection).await?)
        };
        let rows: Vec<(String, String)> = self.0.call(find).await?;
        let found = rows.into_iter().map(|(user, text)| Ok((user, number(&text)?)));
        let found = found.collect::<Result<HashMap<_, _>, LedgerError>>()?;
        Ok(users.iter().map(|user| found.get(user).copied().unwrap_or(0)).collect())
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
    let ids: Vec<Uuid> = settled.iter().map(|(id, _)| *id).collect();
    let failed = settled.iter().filter(|(_, status)| *status == Status::Failed);
    let failed: Vec<Uuid> = failed.map(|(id, _)| *id).collect();
    let (users, sums): (Vec<_>, Vec<_>) =
        balances.iter().map(|(user, sum)| (&**user, sum.to_string())).unzip();
    query(include_str!("../../sql/postgres/settle.sql"))
        .bind(ids)
        .bind(failed)
        .bind(users)
        .bind(sums)
        .execute(connection)
        .await?;
    Ok(())
}
