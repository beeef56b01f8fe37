//! Handlers of users, and the classification of their errors.

use std::{
    collections::HashMap, error::Error, fmt, future::Future, panic::AssertUnwindSafe, pin::Pin,
};

use futures::FutureExt;
use posthaste_core::{Failure, Incoming, StoreError, StoreErrorKind};

use crate::Database;

/// The return type of a handler: `Box::pin(async move { … Ok(()) })`.
pub type HandlerFuture<'c> = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + 'c>>;

/// A handler of one message.
type HandlesOne<DB> = dyn for<'c> Fn(&'c mut <DB as Database>::Connection, &'c Incoming) -> HandlerFuture<'c>
    + Send
    + Sync;

/// A handler of several messages.
type HandlesAll<DB> = dyn for<'c> Fn(&'c mut <DB as Database>::Connection, &'c [&'c Incoming]) -> HandlerFuture<'c>
    + Send
    + Sync;

/// A handler.
pub(super) enum Handler<DB: Database> {
    One(Box<HandlesOne<DB>>),
    All(Box<HandlesAll<DB>>),
}

impl<DB: Database> Handler<DB> {
    async fn handle(
        &self,
        connection: &mut DB::Connection,
        messages: &[&Incoming],
    ) -> Result<(), HandlerError> {
        match self {
            Self::All(handler) => handler(connection, messages).await,
            Self::One(handler) => {
                for message in messages {
                    handler(connection, message).await?;
                }
                Ok(())
            }
        }
    }
}

type Source = Box<dyn Error + Send + Sync>;

/// Why a handler failed. `?` converts any error, and the message is then tried again. A driver
/// error that says that the database cannot be used spends no attempt.
pub struct HandlerError {
    source: Source,
    /// Whether trying again is pointless.
    is_final: bool,
}

impl HandlerError {
    /// The message can never be handled: it becomes a dead letter at once.
    #[must_use]
    pub fn dead_letter(why: impl Into<Source>) -> Self {
        Self { source: why.into(), is_final: true }
    }

    /// The message should be tried again.
    #[must_use]
    pub fn retry(why: impl Into<Source>) -> Self {
        Self { source: why.into(), is_final: false }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// The classification of a handler's error.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The database cannot be used; the message is not at fault.
    Outage(StoreError),
    /// The message could not be handled.
    Failed { failure: Failure, is_final: bool },
}

/// Every handler of a consumer.
pub(super) struct Handlers<DB: Database> {
    pub(super) by_type: HashMap<String, Handler<DB>>,
    pub(super) otherwise: Option<Handler<DB>>,
}

impl<DB: Database> Handlers<DB> {
    /// Runs the handlers of the messages' types, in their order: one call for each run of a type.
    pub(super) async fn call(
        &self,
        connection: &mut DB::Connection,
        messages: &[&Incoming],
    ) -> Result<(), Trouble> {
        let runs = messages.chunk_by(|a, b| a.message.event_type == b.message.event_type);
        for run in runs {
            self.call_one(connection, run).await?;
        }
        Ok(())
    }

    /// Runs one handler for messages of one type.
    async fn call_one(
        &self,
        connection: &mut DB::Connection,
        run: &[&Incoming],
    ) -> Result<(), Trouble> {
        let event_type = run.first().and_then(|first| first.message.event_type.as_deref());
        let handler = event_type.and_then(|it| self.by_type.get(it)).or(self.otherwise.as_ref());
        let Some(handler) = handler else {
            let detail = format!("no handler for type `{}`", event_type.unwrap_or_default());
            return Err(Trouble::Failed {
                failure: Failure::new("unhandled-type", detail),
                is_final: true,
            });
        };
        // Formatting the error runs user code too, so it must be inside `catch_unwind`.
        let outcome = async { handler.handle(connection, run).await.map_err(trouble::<DB>) };
        match AssertUnwindSafe(outcome).catch_unwind().await {
            Ok(outcome) => outcome,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Err(Trouble::Failed {
                    failure: Failure::new("panic", text.unwrap_or("a panic without text")),
                    is_final: false,
                })
            }
        }
    }
}

fn trouble<DB: Database>(error: HandlerError) -> Trouble {
    let HandlerError { source, is_final } = error;
    let mut detail = source.to_string();
    let mut cause = source.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Many errors include their source in their own text.
        if !detail.contains(&text) {
            detail = format!("{detail}: {text}");
        }
        cause = error.source();
    }
    let failure = Failure::new("handler", detail);
    let of_store = match source.downcast::<StoreError>() {
        Ok(error) => Some(*error),
        Err(source) => DB::handler_error(source),
    };
    match of_store {
        Some(error) if error.kind == StoreErrorKind::Unavailable && !is_final => {
            Trouble::Outage(error)
        }
        _ => Trouble::Failed { failure, is_final },
    }
}
