//! A connection that is kept for one kind of calls.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use services_web::database::{CALL_TIMEOUT, RESTED_MAX};
use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};
use tokio::time::timeout;

use crate::application::LedgerError;

/// Time after which the connection goes back to the pool, which closes old connections.
const KEPT_MAX: Duration = Duration::from_secs(60);

/// Connections of a pool, for calls that come one after the other. The one that was used last is
/// kept for the next call: the pool sends a statement of its own whenever a connection is taken or
/// given back.
pub(super) struct Line {
    pool: PgPool,
    kept: Mutex<Option<Taken>>,
}

/// A connection in use. Dropped, it goes back to the pool, which looks whether it still works.
struct Taken {
    connection: PoolConnection<Postgres>,
    since: Instant,
    used_at: Instant,
}

impl Line {
    pub(super) fn new(pool: PgPool) -> Self {
        Self { pool, kept: Mutex::default() }
    }

    /// Does the work of a call, which must not be cancelled. After a successful call the connection
    /// is kept for the next one. After a missed deadline it is closed, because the answer may still
    /// arrive, and the pool would wait for it.
    pub(super) async fn call<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut taken = self.take().await?;
        match timeout(CALL_TIMEOUT, work(&mut taken.connection)).await {
            Ok(Ok(value)) => {
                self.keep(taken);
                Ok(value)
            }
            Ok(Err(error @ LedgerError::Internal(_))) => Err(error),
            Ok(Err(error)) => {
                drop(taken.connection.detach());
                Err(error)
            }
            Err(_) => {
                drop(taken.connection.detach());
                Err(LedgerError::Unavailable("the database did not answer in time".to_owned()))
            }
        }
    }

    /// The kept connection, or one of the pool.
    async fn take(&self) -> Result<Taken, sqlx::Error> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_fresh =
            |it: &Taken| it.used_at.elapsed() < RESTED_MAX && it.since.elapsed() < KEPT_MAX;
        if let Some(taken) = kept.filter(is_fresh) {
            return Ok(taken);
        }
        let connection = self.pool.acquire().await?;
        let now = Instant::now();
        Ok(Taken { connection, since: now, used_at: now })
    }

    fn keep(&self, taken: Taken) {
        let taken = Taken { used_at: Instant::now(), ..taken };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
    }
}
