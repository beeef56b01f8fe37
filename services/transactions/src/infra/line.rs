//! A connection that one kind of calls keeps.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use services_web::database::RESTED_MAX;
use sqlx::{PgPool, Postgres, pool::PoolConnection};

/// After this it goes back to the pool, which ends those that are old.
const KEPT_MAX: Duration = Duration::from_secs(60);

/// Connections of a pool, for calls that come one after the other. The one that was used last is kept for
/// the next call: the pool sends a statement of its own whenever a connection is taken or given back.
pub(super) struct Line {
    pool: PgPool,
    kept: Mutex<Option<Taken>>,
}

/// A connection in use. Dropped, it goes back to the pool, which looks whether it still works.
pub(super) struct Taken {
    pub(super) connection: PoolConnection<Postgres>,
    since: Instant,
    used_at: Instant,
}

impl Line {
    pub(super) fn new(pool: PgPool) -> Self {
        Self { pool, kept: Mutex::default() }
    }

    /// The kept one, or one of the pool.
    pub(super) async fn take(&self) -> Result<Taken, sqlx::Error> {
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

    /// Keeps one that a call has ended well with.
    pub(super) fn keep(&self, taken: Taken) {
        let taken = Taken { used_at: Instant::now(), ..taken };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
    }
}
