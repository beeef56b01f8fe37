//! What can be done with articles. Between the API and storage: it gives the time, and wakes the
//! relay once something has been committed.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;

use crate::{
    domain::{Article, ArticleId, ArticleLiked, ArticleRecord, AuthorId},
    series::{POINTS_MAX, Series, Window},
    storage::{Storage, StorageError},
};

/// The time, as a function, so that tests can give another.
pub type Clock = fn() -> Timestamp;

/// The operations on articles. Clones share their state.
#[derive(Clone)]
pub struct Articles {
    storage: Arc<dyn Storage>,
    clock: Clock,
    /// Set once a relay runs; until then, and where none does, its polling finds everything.
    relay: Arc<OnceLock<posthaste::Handle>>,
}

/// A like that was counted.
#[derive(Debug)]
pub struct Liked {
    /// The article's likes, this one included.
    pub likes: u64,
    /// What is told to others.
    pub event: ArticleLiked,
}

impl Articles {
    /// On this storage.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>, clock: Clock) -> Self {
        Self { storage, clock, relay: Arc::default() }
    }

    /// The relay to wake after commits. Only the first one given counts.
    pub fn set_relay(&self, relay: posthaste::Handle) {
        let _ = self.relay.set(relay);
    }

    /// The relay's health, where one runs.
    #[must_use]
    pub fn relay_health(&self) -> Option<posthaste::Health> {
        self.relay.get().map(posthaste::Handle::health)
    }

    /// Publishes an article.
    ///
    /// # Errors
    /// For content that is not allowed, or an id that is taken.
    pub async fn publish(
        &self,
        id: ArticleId,
        author: AuthorId,
        content: String,
    ) -> Result<ArticleRecord, StorageError> {
        let article = Article::publish(id, author, content, (self.clock)())?;
        let record = article.record().clone();
        self.storage.insert(article).await?;
        Ok(record)
    }

    /// Publishes the article that every description of this service begins with: 1, by author 1, with
    /// 3 likes from before there were events. Does nothing where there is an article 1.
    ///
    /// # Errors
    /// When storage fails.
    pub async fn seed(&self) -> Result<(), StorageError> {
        let now = (self.clock)();
        let article = Article::reload(ArticleRecord {
            id: ArticleId::try_from(1)?,
            author_id: AuthorId::try_from(1)?,
            content: "Like me.".to_owned(),
            likes: 3,
            published_at: now,
            modified_at: now,
        });
        match self.storage.insert(article).await {
            Ok(()) | Err(StorageError::Exists(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The article.
    ///
    /// # Errors
    /// When there is none, or storage fails.
    pub async fn get(&self, id: ArticleId) -> Result<ArticleRecord, StorageError> {
        Ok(self.storage.get(id).await?.record().clone())
    }

    /// Likes an article.
    ///
    /// # Errors
    /// When there is none, or storage fails.
    pub async fn like(&self, id: ArticleId) -> Result<Liked, StorageError> {
        let clock = self.clock;
        // The clock is read under the article's lock: likes of an article are in the order of time.
        let like = move |article: &mut Article| {
            article.like(clock());
            Ok(())
        };
        let mut changed = self.storage.update(id, Box::new(like)).await?;
        if let Some(relay) = self.relay.get() {
            relay.wake();
        }
        let event = changed.events.pop().expect("a like leaves an event");
        Ok(Liked { likes: changed.article.likes(), event })
    }

    /// Changes what an article says.
    ///
    /// # Errors
    /// For content that is not allowed, when there is no such article, or storage fails.
    pub async fn update_content(
        &self,
        id: ArticleId,
        content: String,
    ) -> Result<ArticleRecord, StorageError> {
        let now = (self.clock)();
        let change = move |article: &mut Article| article.update_content(content, now);
        Ok(self.storage.update(id, Box::new(change)).await?.article.record().clone())
    }

    /// The author's likes by second, or by longer stretches where that would be more than
    /// [`POINTS_MAX`]: from the first to the last of these seconds, or since the first like. Empty for
    /// an author nobody liked, and for one nobody knows.
    ///
    /// # Errors
    /// When storage fails.
    pub async fn series(
        &self,
        author: AuthorId,
        seconds: Option<(i64, i64)>,
    ) -> Result<Series, StorageError> {
        let seconds = match seconds {
            Some(seconds) => Some(seconds),
            None => self.storage.bounds(author).await?,
        };
        let Some((first, last)) = seconds else { return Ok(Series::empty()) };
        let window = Window::covering(first, last, POINTS_MAX);
        Ok(Series::new(window, self.storage.count(author, window).await?))
    }

    /// Says whether storage can be used now.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn check(&self) -> Result<(), StorageError> {
        self.storage.check().await
    }
}
