//! A connection that is made when it is needed and replaced after it failed.

use std::{ops::Deref, sync::Arc};

use tokio::sync::Mutex;

/// Holds the current connection, if there is one.
#[derive(Debug)]
pub struct Connection<C> {
    current: Mutex<Option<Arc<C>>>,
}

/// A connection in use. Others may use it at the same time.
#[derive(Debug)]
pub struct Link<C>(Arc<C>);

impl<C> Clone for Link<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Deref for Link<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C> Default for Connection<C> {
    fn default() -> Self {
        Self { current: Mutex::new(None) }
    }
}

impl<C> Connection<C> {
    /// The current connection, or a new one by `dial`. Whoever comes meanwhile waits for that one;
    /// a dropped call leaves nothing behind.
    ///
    /// # Errors
    /// What `dial` says.
    pub async fn get<E>(&self, dial: impl Future<Output = Result<C, E>>) -> Result<Link<C>, E> {
        let mut current = self.current.lock().await;
        if let Some(connection) = &*current {
            return Ok(Link(Arc::clone(connection)));
        }
        let connection = Arc::new(dial.await?);
        *current = Some(Arc::clone(&connection));
        Ok(Link(connection))
    }

    /// Forgets a connection that failed: the next [`get`](Self::get) makes a new one. One that has
    /// been replaced already stays replaced.
    pub async fn discard(&self, failed: &Link<C>) {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, &failed.0)) {
            *current = None;
        }
    }

    /// Takes the current connection out, to close it.
    pub async fn take(&self) -> Option<Link<C>> {
        self.current.lock().await.take().map(Link)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test]
    async fn a_failed_connection_is_replaced_once() {
        let slot = Connection::default();
        let one = slot.get(async { Ok::<_, Infallible>(1) }).await.unwrap();
        let same = slot.get(async { Ok::<_, Infallible>(2) }).await.unwrap();
        assert_eq!((*one, *same), (1, 1));
        slot.discard(&one).await;
        let two = slot.get(async { Ok::<_, Infallible>(2) }).await.unwrap();
        slot.discard(&same).await;
        let still = slot.get(async { Ok::<_, Infallible>(3) }).await.unwrap();
        assert_eq!((*two, *still), (2, 2), "the older one's failure says nothing of the newer");
        assert_eq!(slot.take().await.map(|link| *link), Some(2));
        assert!(slot.take().await.is_none());
    }
}
