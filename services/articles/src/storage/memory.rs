//! Articles in memory: gone with the process, for trying things out and for quick tests.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use posthaste::{Store, testing::MemoryStore};

use super::{Change, Changed, Storage, StorageError, fresh_source, messages};
use crate::{
    domain::{Article, ArticleId, ArticleLiked, ArticleRecord, AuthorId},
    series::{Count, Window, second},
};

/// See the module documentation.
pub struct MemoryStorage {
    /// Held for the length of one call, outbox included; never across an await.
    state: Mutex<State>,
    outbox: MemoryStore,
    source: String,
}

#[derive(Default)]
struct State {
    articles: BTreeMap<ArticleId, ArticleRecord>,
    /// Every like that had an event, oldest first.
    likes: Vec<ArticleLiked>,
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStorage {
    /// Without articles.
    #[must_use]
    pub fn new() -> Self {
        let outbox = posthaste::testing::memory_store();
        Self { state: Mutex::default(), outbox, source: fresh_source() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Storage for MemoryStorage {
    async fn insert(&self, article: Article) -> Result<(), StorageError> {
        let mut state = self.state();
        if state.articles.contains_key(&article.id()) {
            return Err(StorageError::Exists(article.id()));
        }
        state.articles.insert(article.id(), article.record().clone());
        Ok(())
    }

    async fn get(&self, id: ArticleId) -> Result<Article, StorageError> {
        let record = self.state().articles.get(&id).cloned();
        record.map(Article::reload).ok_or(StorageError::NotFound(id))
    }

    async fn update(&self, id: ArticleId, change: Change) -> Result<Changed, StorageError> {
        let mut state = self.state();
        let record = state.articles.get(&id).cloned().ok_or(StorageError::NotFound(id))?;
        let mut article = Article::reload(record);
        change(&mut article)?;
        let events = article.take_events();
        let mut tx = self.outbox.begin();
        tx.enqueue(&messages(&events)?)?;
        // From here on nothing can fail.
        tx.commit();
        state.likes.extend(events.iter().cloned());
        state.articles.insert(id, article.record().clone());
        Ok(Changed { article, events })
    }

    async fn bounds(&self, author: AuthorId) -> Result<Option<(i64, i64)>, StorageError> {
        let state = self.state();
        let likes = state.likes.iter().filter(|like| like.author_id() == author);
        let seconds: Vec<i64> = likes.map(|like| second(like.timestamp())).collect();
        Ok(seconds.iter().min().copied().zip(seconds.iter().max().copied()))
    }

    async fn count(&self, author: AuthorId, window: Window) -> Result<Vec<Count>, StorageError> {
        let state = self.state();
        let likes = state.likes.iter().filter(|like| like.author_id() == author);
        let stretches = likes.filter_map(|like| window.stretch(second(like.timestamp())));
        Ok(stretches.map(|stretch| Count { author, stretch, likes: 1 }).collect())
    }

    async fn check(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn outbox(&self) -> Arc<dyn Store> {
        Arc::new(self.outbox.clone())
    }

    fn source(&self) -> &str {
        &self.source
    }
}
