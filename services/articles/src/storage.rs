//! The port that keeps articles, and the choice of its adapter by URL. Every adapter passes
//! `tests/storage.rs`.

mod memory;
mod postgres;
mod sql;
mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{Message, MessageId, Store, StoreError};

use crate::{
    domain::{Article, ArticleId, ArticleLiked, AuthorId, Invalid},
    series::{Count, Window},
};

pub use memory::MemoryStorage;
pub use postgres::PostgresStorage;
pub use sqlite::SqliteStorage;

/// The topic of everything articles tell.
pub const TOPIC: &str = "articles";
/// The type of [`ArticleLiked`].
pub const ARTICLE_LIKED: &str = "ArticleLiked";

/// Why storage did not do what it was asked. After an error nothing has changed, with one exception:
/// a connection lost during a commit leaves open whether it happened.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The id is taken.
    #[error("article {0} exists already")]
    Exists(ArticleId),
    /// There is no such article.
    #[error("article {0} does not exist")]
    NotFound(ArticleId),
    /// The change itself was refused.
    #[error(transparent)]
    Refused(#[from] Invalid),
    /// The outbox did not take the events.
    #[error("the outbox failed")]
    Outbox(#[from] StoreError),
    /// The database failed.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    /// What the database holds is not what this service writes.
    #[error("the database holds a {what} that cannot be read")]
    Corrupt {
        /// Which column.
        what: &'static str,
    },
}

/// A change of one article, run while nobody else can change it.
pub type Change = Box<dyn FnOnce(&mut Article) -> Result<(), Invalid> + Send>;

/// An article after a change, and what the change made happen.
#[derive(Debug)]
pub struct Changed {
    /// As it is now.
    pub article: Article,
    /// The events that were written with it.
    pub events: Vec<ArticleLiked>,
}

/// Keeps articles, and hands their events to the outbox in the same step.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// Keeps a new article.
    ///
    /// # Errors
    /// [`StorageError::Exists`] where the id is taken; the article there stays as it is.
    async fn insert(&self, article: Article) -> Result<(), StorageError>;

    /// The article, without events.
    ///
    /// # Errors
    /// [`StorageError::NotFound`].
    async fn get(&self, id: ArticleId) -> Result<Article, StorageError>;

    /// Loads the article, changes it and keeps it with its events, all in one: changes of one
    /// article happen one after the other, and there is no instant at which only the article or only
    /// the events are kept.
    ///
    /// # Errors
    /// [`StorageError::NotFound`], or what `change` refused.
    async fn update(&self, id: ArticleId, change: Change) -> Result<Changed, StorageError>;

    /// The first and the last second of Unix time in which the author was liked.
    ///
    /// # Errors
    /// When the database fails.
    async fn bounds(&self, author: AuthorId) -> Result<Option<(i64, i64)>, StorageError>;

    /// The author's likes within the window; stretches without likes may be left out.
    ///
    /// # Errors
    /// When the database fails.
    async fn count(&self, author: AuthorId, window: Window) -> Result<Vec<Count>, StorageError>;

    /// Says whether the storage can be used now.
    ///
    /// # Errors
    /// When the database fails.
    async fn check(&self) -> Result<(), StorageError>;

    /// The outbox the events go to, for a relay.
    fn outbox(&self) -> Arc<dyn Store>;

    /// What this outbox is called among all outboxes a consumer hears from. Made with the storage,
    /// kept with it, and never the same for two.
    fn source(&self) -> &str;
}

/// Opens storage by its URL: `memory:`, `sqlite:<file>` or `postgres://...`; creates what is missing.
///
/// # Errors
/// For another URL, and when the database cannot be used.
pub async fn open(url: &str) -> anyhow::Result<Arc<dyn Storage>> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("memory") => Ok(Arc::new(MemoryStorage::new())),
        Some("sqlite") => Ok(Arc::new(SqliteStorage::open(url).await?)),
        Some("postgres" | "postgresql") => Ok(Arc::new(PostgresStorage::open(url).await?)),
        // The URL may hold a password.
        _ => anyhow::bail!(
            "the database must be memory:, sqlite:<file> or postgres://<server>/<name>"
        ),
    }
}

/// A fresh name for an outbox: a URI reference, as CloudEvents asks.
fn fresh_source() -> String {
    format!("/articles/{}", uuid::Uuid::now_v7())
}

/// Events as the outbox takes them: the message's id is the event's, its key the article.
fn messages(events: &[ArticleLiked]) -> Result<Vec<Message>, StorageError> {
    let message = |event: &ArticleLiked| {
        let message = Message::new(TOPIC, event.article_id(), event)?.event_type(ARTICLE_LIKED);
        Ok(Message { id: MessageId(event.event_id()), ..message })
    };
    let messages: Result<_, posthaste::Invalid> = events.iter().map(message).collect();
    messages.map_err(|_| StorageError::Corrupt { what: "event" })
}
