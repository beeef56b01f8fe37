//! A connection that is opened when it is needed and replaced after it failed.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Holds the current connection, if there is one.
#[derive(Debug)]
pub struct Connection<C> {
    current: Mutex<Option<Arc<C>>>,
    /// Held while a connection is opened. It is a separate lock, so that dropping a failed
    /// connection does not wait for a dial.
    dialling: tokio::sync::Mutex<()>,
}

/// A connection in use. Several calls may use it at the same time.
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
        Self { current: Mutex::new(None), dialling: tokio::sync::Mutex::new(()) }
    }
}

impl<C> Connection<C> {
    /// The current connection, or a new one by `dial`. Concurrent callers wait for the same dial; a
    /// dropped call leaves nothing behind.
    ///
    /// # Errors
    /// The error of `dial`.
    pub async fn get<E>(&self, dial: impl Future<Output = Result<C, E>>) -> Result<Link<C>, E> {
        if let Some(connection) = &*self.current() {
            return Ok(Link(Arc::clone(connection)));
        }
        let _dialling = self.dialling.lock().await;
        // Another caller may have connected meanwhile.
        if let Some(connection) = &*self.current() {
            return Ok(Link(Arc::clone(connection)));
        }
        let connection = Arc::new(dial.await?);
        *self.current() = Some(Arc::clone(&connection));
        Ok(Link(connection))
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<C>>> {
        // The lock is never held across an await, and a panic leaves the value valid.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops a connection that failed: the next [`get`](Self::get) opens a new one. Does nothing if
    /// the connection has already been replaced.
    pub fn discard(&self, failed: &Link<C>) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, &failed.0)) {
            *current = None;
        }
    }

    /// Takes the current connection out, to close it.
    pub fn take(&self) -> Option<Link<C>> {
        self.current().take().map(Link)
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_failed_connection_is_replaced_once() {
        let slot = Connection::default();
        let one = slot.get(async { Ok::<_, Infallible>(1) }).await.unwrap();
        let same = slot.get(async { Ok::<_, Infallible>(2) }).await.unwrap();
        assert_eq!((*one, *same), (1, 1));
        slot.discard(&one);
        let two = slot.get(async { Ok::<_, Infallible>(2) }).await.unwrap();
        slot.discard(&same);
        let still = slot.get(async { Ok::<_, Infallible>(3) }).await.unwrap();
        assert_eq!((*two, *still), (2, 2), "the older one's failure says nothing of the newer");
        assert_eq!(slot.take().map(|link| *link), Some(2));
        assert!(slot.take().is_none());
    }
    #[tokio::test]
    async fn giving_a_connection_up_waits_for_no_dial() {
        let slot = Connection::default();
        let one = slot.get(async { Ok::<_, Infallible>(1) }).await.unwrap();
        slot.discard(&one);
        let mut dial = Box::pin(slot.get(pending::<Result<i32, Infallible>>()));
        assert!((&mut dial).now_or_never().is_none());
        slot.discard(&one);
        assert!(slot.take().is_none());
    }
}
