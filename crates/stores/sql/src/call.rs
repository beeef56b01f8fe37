//! How every call runs: in a task that no dropped caller can cancel, with a deadline, in one scope, and
//! again where the server ended it because of a deadlock.
//!
//! Drivers leave a pooled connection inside a transaction when a `begin` is cancelled. Here nothing is
//! cancelled: the work runs in a task of its own, and a connection that misses the deadline is closed, not
//! given back, because its answer may still arrive.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use posthaste_core::StoreError;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    Dialect, Fault, Namespace, Reuse, Scope, Session, fault::Condition, journal::Thinned,
    purge::Swept,
};

/// Times that a call is tried when it keeps meeting deadlocks.
const ATTEMPTS_MAX: u32 = 8;
/// Longest pause before another attempt. The actual one is random, so that two calls that met part.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// An outbox in an SQL database. Clones share the pool.
#[derive(Clone)]
pub struct SqlStore<D: Dialect> {
    dialect: D,
    pool: D::Pool,
    deadline: Duration,
    pub(crate) memory: Arc<Memory>,
}

/// What a store remembers between calls. Lost with the process, which costs one look at everything. Plain
/// mutexes: held for an assignment only.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// How far the log has been swept.
    pub(crate) swept: Mutex<Swept>,
    /// How far journals have been thinned.
    pub(crate) thinned: Mutex<Thinned>,
}

/// What a call does in its session. It may run more than once.
pub type Work<D, A, T> =
    for<'a, 's> fn(&'a mut Session<'s, D>, Arc<A>) -> BoxFuture<'a, Result<T, Fault>>;

/// Runs a call of a store: `call!(store, "renew", Statements, (lease.clone(), ttl), |session, (lease, ttl)|
/// renew(session, lease, *ttl))`. The arguments are owned, because the call outlives its caller.
#[macro_export]
macro_rules! call {
    ($store:expr, $operation:expr, $scope:ident, $argument:expr, |$session:ident, $pattern:pat_param| $work:expr) => {
        $store.call($operation, $crate::Scope::$scope, $argument, |$session, argument| {
            Box::pin(async move {
                let $pattern = &*argument;
                $work.await
            })
        })
    };
}

impl<D: Dialect> SqlStore<D> {
    /// A store on the database of the caller's pool.
    #[must_use]
    pub fn new(pool: D::Pool) -> Self {
        Self::with(D::of(&Namespace::default()), pool)
    }

    /// A store on a small pool of its own.
    ///
    /// # Errors
    /// Kind `Refused` for a URL that is wrong or a database that does not exist, `Denied` for credentials
    /// that are wrong, `Unavailable` where the server cannot be reached, `ReadOnly` for a server that
    /// refuses writes where the URL asks for one that does not.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_in(url, &Namespace::default()).await
    }

    /// As [`connect`](Self::connect), for the tables of a namespace: several outboxes live in one database
    /// under different names.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_in(url: &str, namespace: &Namespace) -> Result<Self, StoreError> {
        let (dialect, pool) = D::connect(url, namespace).await?;
        Ok(Self::of(dialect, pool))
    }

    /// A store on the caller's pool, for the tables of a namespace.
    #[must_use]
    pub fn new_in(pool: D::Pool, namespace: &Namespace) -> Self {
        Self::with(D::of(namespace), pool)
    }

    fn with(dialect: D, pool: D::Pool) -> Self {
        let (dialect, pool) = dialect.adopt_pool(pool);
        Self::of(dialect, pool)
    }

    fn of(dialect: D, pool: D::Pool) -> Self {
        Self { dialect, pool, deadline: D::DEADLINE, memory: Arc::default() }
    }

    /// Sets the time that a call may take; after it the call fails and its connection is closed.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The time that a call may take.
    pub(crate) fn call_deadline(&self) -> Duration {
        self.deadline
    }

    /// The connections that this store uses.
    #[must_use]
    pub fn pool(&self) -> &D::Pool {
        &self.pool
    }

    /// The dialect.
    #[must_use]
    pub fn dialect(&self) -> &D {
        &self.dialect
    }

    /// Runs a call with the store's deadline; see the module's documentation.
    ///
    /// # Errors
    /// That of the work; kind `Unavailable` where there is no connection or no answer in time.
    pub async fn call<A, T>(
        &self,
        operation: &'static str,
        scope: Scope,
        argument: A,
        work: Work<D, A, T>,
    ) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.call_within(self.deadline, operation, scope, argument, work).await
    }

    /// Runs a call that may take longer than others.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn call_within<A, T>(
        &self,
        deadline: Duration,
        operation: &'static str,
        scope: Scope,
        argument: A,
        work: Work<D, A, T>,
    ) -> Result<T, StoreError>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let store = self.clone();
        let task = tokio::spawn(async move {
            let argument = Arc::new(argument);
            let end = Instant::now() + deadline;
            let mut attempts = 1;
            loop {
                let outcome = store.attempt(end, scope, Arc::clone(&argument), work).await;
                match outcome.unwrap_or_else(|_| Err(Fault::timed_out(deadline))) {
                    Err(fault) if fault.is_deadlock() && attempts < ATTEMPTS_MAX => {
                        attempts += 1;
                        sleep(PAUSE_MAX.mul_f64(fastrand::f64())).await;
                    }
                    outcome => return outcome,
                }
            }
        });
        match task.await {
            Ok(outcome) => outcome.map_err(|fault| fault.of(operation)),
            Err(panic) => {
                let told = Fault::internal("the call ended early; this is a bug of the store");
                Err(told.of(operation).with_source(panic))
            }
        }
    }

    /// One attempt; the outer error says that time was up.
    async fn attempt<A, T>(
        &self,
        end: Instant,
        scope: Scope,
        argument: Arc<A>,
        work: Work<D, A, T>,
    ) -> Result<Result<T, Fault>, tokio::time::error::Elapsed> {
        let lent = match timeout_at(end, self.dialect.lend(&self.pool)).await? {
            Ok(lent) => lent,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut borrowed = Borrowed::<D>(Some(lent));
        let within = self.within(borrowed.connection(), scope, argument, work);
        let (outcome, condition) = timeout_at(end, within).await?;
        if condition == Condition::Sound {
            borrowed.give_back();
        }
        Ok(outcome)
    }

    /// The outcome, and whether the connection can be used again.
    async fn within<A, T>(
        &self,
        connection: &mut D::Connection,
        scope: Scope,
        argument: Arc<A>,
        work: Work<D, A, T>,
    ) -> (Result<T, Fault>, Condition) {
        let dialect = &self.dialect;
        if let Err(fault) = dialect.begin(connection, scope, self.deadline).await {
            return (Err(fault), Condition::Doubtful);
        }
        let mut session = Session { dialect, connection, reuse: Reuse::Unnamed };
        let fault = match work(&mut session, argument).await {
            Ok(value) => match dialect.commit(connection, scope).await {
                Ok(()) => return (Ok(value), Condition::Sound),
                Err(fault) => return (Err(fault), Condition::Doubtful),
            },
            Err(fault) => fault,
        };
        // All of it: some failures undo only their statement. What failed matters more than whether this
        // does.
        let condition = match dialect.rollback(connection, scope).await {
            Ok(()) => fault.condition(),
            Err(_) => Condition::Doubtful,
        };
        (Err(fault), condition)
    }
}

/// A connection that is closed unless it is given back: a call that panics, or misses its deadline, may
/// leave a transaction open, and the driver does not know of it.
struct Borrowed<D: Dialect>(Option<D::Lent>);

impl<D: Dialect> Borrowed<D> {
    fn connection(&mut self) -> &mut D::Connection {
        self.0.as_mut().expect("taken only by what ends the loan").as_mut()
    }

    fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl<D: Dialect> Drop for Borrowed<D> {
    fn drop(&mut self) {
        if let Some(lent) = self.0.take() {
            D::discard(lent);
        }
    }
}

/// The pool's options hold the password.
impl<D: Dialect> fmt::Debug for SqlStore<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
