//! A connection that does not wait for ever: for the next request, for the rest of a request's headers,
//! for a client to take its answer. The rest of a body and the handler are bounded by the server's
//! layer, which can answer before it closes.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// How long a connection may wait for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From the first byte of a request (for the first one: from the connection) to the end of its
    /// headers.
    pub(crate) read: Duration,
    /// For a client that does not take what is written.
    pub(crate) write: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
}

/// Set while a request is handled: from the end of its headers until its answer is written. The
/// service sets it; the stream, which sees the answer leave, clears it.
pub(crate) type Busy = Arc<AtomicBool>;

/// A stream with deadlines.
#[derive(Debug)]
pub(crate) struct Stream<S> {
    inner: S,
    patience: Patience,
    busy: Busy,
    /// When reading ends, unless busy. Moved at the start of a request and at the end of an answer.
    read_by: Pin<Box<Sleep>>,
    /// Whether a byte of the next request has come: from then on `read_by` stays.
    has_begun: bool,
    /// Whether bytes of an answer went out since the last flush.
    has_written: bool,
    /// When a write that waits has waited too long; `None` while none does.
    write_by: Option<Pin<Box<Sleep>>>,
}

impl<S> Stream<S> {
    /// The stream of a new connection.
    pub(crate) fn new(inner: S, patience: Patience, busy: Busy) -> Self {
        let read_by = Box::pin(sleep(patience.read));
        Self { inner, patience, busy, read_by, has_begun: true, has_written: false, write_by: None }
    }

    /// An answer has left: the next request may take its time to begin.
    fn answered(&mut self) {
        self.has_written = false;
        self.has_begun = false;
        self.busy.store(false, Ordering::Relaxed);
        self.read_by.as_mut().reset(Instant::now() + self.patience.idle);
    }

    /// Bounds a write or flush.
    fn bound<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.write_by = None;
            return result;
        }
        let patience = self.patience.write;
        let by = self.write_by.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(by.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let is_busy = this.busy.load(Ordering::Relaxed);
        // Before reading: a byte every second must not keep it open.
        if !is_busy && this.read_by.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
        if !is_busy && !this.has_begun && !buffer.filled().is_empty() {
            this.has_begun = true;
            this.read_by.as_mut().reset(Instant::now() + this.patience.read);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.has_written |= matches!(result, Poll::Ready(Ok(1..)));
        self.bound(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(context);
        if result.is_ready() && self.has_written {
            self.answered();
        }
        self.bound(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_shutdown(context);
        self.bound(context, result)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const PATIENCE: Patience = Patience {
        read: Duration::from_secs(10),
        write: Duration::from_secs(10),
        idle: Duration::from_secs(120),
    };

    fn pair() -> (DuplexStream, Stream<DuplexStream>, Busy) {
        let (client, server) = duplex(16);
        let busy = Busy::default();
        (client, Stream::new(server, PATIENCE, busy.clone()), busy)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_drips_ends_at_the_deadline() {
        let (mut client, mut stream, _busy) = pair();
        let start = Instant::now();
        tokio::spawn(async move {
            while client.write_all(b"G").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        while stream.read_u8().await.is_ok() {}
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn between_requests_there_is_more_time_and_then_the_short_deadline_again() {
        let (mut client, mut stream, busy) = pair();
        client.write_all(b"G").await.unwrap();
        stream.read_u8().await.unwrap();
        busy.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(30)).await;
        stream.write_all(b"ok").await.unwrap();
        stream.flush().await.unwrap();
        assert!(!busy.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_secs(119)).await;
        client.write_all(b"G").await.unwrap();
        stream.read_u8().await.unwrap();
        let start = Instant::now();
        stream.read_u8().await.unwrap_err();
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed() {
        let (_client, mut stream, _busy) = pair();
        stream.write_all(b"ok").await.unwrap();
        stream.flush().await.unwrap();
        let start = Instant::now();
        stream.read_u8().await.unwrap_err();
        assert_eq!(start.elapsed().as_secs(), 120);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (_client, mut stream, _busy) = pair();
        let start = Instant::now();
        stream.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(start.elapsed().as_secs(), 10);
    }
}
