//! The HTTP server: every wait, size and number is bounded, and a stop resets no connection.

use std::{io, pin::pin, sync::atomic::Ordering, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    http::{HeaderValue, StatusCode, header},
    middleware,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_http::{catch_panic::CatchPanicLayer, timeout::TimeoutLayer};
use tower_service::Service as _;

use crate::{
    envelope,
    observe::{self, Metrics},
    stream::{Busy, Patience, Stream},
};

/// Longest waits.
const PATIENCE: Patience = Patience {
    read: Duration::from_secs(10),
    write: Duration::from_secs(10),
    idle: Duration::from_secs(120),
};

/// From the end of a request's headers to its answer: the rest of the body, and the handler.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time from the stop signal to the end, even with open connections.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long idle connections stay open after the stop signal: a request that a client sent
/// meanwhile is answered, and the answer tells the client to close.
const LINGER: Duration = Duration::from_millis(500);

/// Largest body.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of a request's line and headers.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most connections; more wait to be accepted.
const CONNECTIONS_MAX: usize = 4096;

/// The layers around every route, from the innermost.
pub(crate) fn layered(router: Router, metrics: &Metrics) -> Router {
    router
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(CatchPanicLayer::new())
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, ANSWER_TIMEOUT))
        .layer(middleware::from_fn(envelope::errors))
        .layer(middleware::from_fn_with_state(metrics.clone(), observe::requests))
}

/// Serves until stopped, then until all accepted requests are answered, for at most ten seconds.
/// The waits for headers, for clients that read their answers and between requests are bounded;
/// handlers are not.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let places = std::sync::Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    let start = |stream: TcpStream, place| {
        let connection = connection(stream, router.clone(), stop.clone());
        connections.spawn(async move {
            connection.await;
            drop(place);
        });
    };
    loop {
        let accept = async {
            let place = places.clone().acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        match stop.run_until_cancelled(accept).await.flatten() {
            Some((Ok((stream, _)), place)) => start(stream, place),
            Some((Err(error), _)) => pause_after(&error).await,
            None => break,
        }
    }
    // Clients that connected before the signal are served; closing the listener would reset their
    // connections.
    for stream in backlog(listener) {
        let Ok(place) = places.clone().try_acquire_owned() else { break };
        start(stream, place);
    }
    connections.close();
    tracing::info!(connections = connections.len(), "stopping");
    if timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "stopped with connections open");
    }
}

/// Accepts all pending connections, then closes the listener. It asks the operating system, because
/// the runtime knows only the connections of its last poll.
fn backlog(listener: TcpListener) -> impl Iterator<Item = TcpStream> {
    let listener = listener.into_std().ok();
    let accept = move || loop {
        match listener.as_ref()?.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true).ok()?;
                return TcpStream::from_std(stream).ok();
            }
            // The client has gone; the next connection may be fine.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    };
    std::iter::from_fn(accept)
}

/// Errors of accepting are either of one connection, or the process is out of files, which passes.
async fn pause_after(error: &io::Error) {
    tracing::warn!(reason = %error, "a connection could not be accepted");
    sleep(Duration::from_millis(50)).await;
}

async fn connection(stream: TcpStream, router: Router, stop: CancellationToken) {
    // Answers are small and wait for nobody.
    let _ = stream.set_nodelay(true);
    let busy = Busy::default();
    let io = TokioIo::new(Stream::new(stream, PATIENCE, busy.clone()));
    let stopping = stop.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        busy.store(true, Ordering::Relaxed);
        let answer = router.clone().call(request);
        let stopping = stopping.clone();
        async move {
            let mut response = answer.await?;
            if stopping.is_cancelled() {
                response
                    .headers_mut()
                    .insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX).header_read_timeout(None);
    let mut connection = pin!(builder.serve_connection(io, service));
    let linger = async {
        stop.cancelled().await;
        sleep(LINGER).await;
    };
    // The end of a connection is no error: the client was answered, or has gone.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = linger => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use axum::routing::get;

    use super::*;

    /// One thread: between the connection and the stop the runtime cannot look who is there.
    #[tokio::test]
    async fn r1_15_who_connects_just_before_the_stop_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = Router::new().route("/", get(async || "ok"));
        let serving = tokio::spawn(serve(listener, router, stop.clone()));
        tokio::task::yield_now().await;
        let connect = || std::net::TcpStream::connect(address).unwrap();
        let mut clients = [connect(), connect(), connect()];
        for client in &mut clients {
            client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        }
        stop.cancel();
        serving.await.unwrap();
        for client in &mut clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
}
