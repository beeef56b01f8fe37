//! The HTTP server behind a subscriber. Anybody may talk to it, so everything it does for a stranger
//! is bounded: connections, their time, and the memory of what they send.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Body, Incoming},
    header::{ALLOW, HeaderValue, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use posthaste_core::{HEADERS_BYTES_MAX, PAYLOAD_BYTES_MAX};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, SemaphorePermit, mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{Secret, publish::now, signature};

/// Connections at once; the next one waits to be accepted.
const CONNECTIONS_MAX: usize = 512;
/// Most messages received and not acknowledged; what comes beyond is asked to come later.
pub(crate) const PENDING_MAX: usize = 256;
/// Longest wait for the head of a request, the time between two requests included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a sender waits for a message to be acknowledged.
const HANDLING_MAX: Duration = Duration::from_secs(30);
/// How far a sender's clock may be from ours, as Standard Webhooks proposes.
const TOLERANCE: Duration = Duration::from_secs(5 * 60);
/// A payload in base64 inside a structured event, with its attributes.
const BODY_BYTES_MAX: usize = PAYLOAD_BYTES_MAX / 3 * 4 + HEADERS_BYTES_MAX;
/// All bodies that are being read or handled.
const BODIES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Headers of a request.
const HEADERS_MAX: usize = 1024;
/// How long to leave the system alone when it has no more connections to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A webhook that is signed as it must be.
pub(crate) struct Webhook {
    pub(crate) id: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whom to tell that it was handled.
    pub(crate) handled: oneshot::Sender<()>,
}

/// What the server listens for.
pub(crate) struct Endpoint {
    path: String,
    secrets: Vec<Secret>,
    arrived: mpsc::Sender<Webhook>,
    bodies: Semaphore,
    pending: Semaphore,
}

impl Endpoint {
    pub(crate) fn new(path: &str, secrets: &[Secret], arrived: mpsc::Sender<Webhook>) -> Self {
        Self {
            path: path.to_owned(),
            secrets: secrets.to_vec(),
            arrived,
            bodies: Semaphore::new(BODIES_BYTES_MAX),
            pending: Semaphore::new(PENDING_MAX),
        }
    }
}

type Answer = Response<Full<Bytes>>;

/// Serves until it is dropped; every connection ends with it.
pub(crate) async fn serve(listener: TcpListener, endpoint: Endpoint) {
    let endpoint = Arc::new(endpoint);
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let endpoint = Arc::clone(&endpoint);
                connections.spawn(async move {
                    connection(stream, endpoint).await;
                    drop(permit);
                });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, endpoint: Arc<Endpoint>) {
    let service = service_fn(|request| {
        let endpoint = Arc::clone(&endpoint);
        async move { Ok::<_, Infallible>(take(&endpoint, request).await) }
    });
    // How a connection ends is its sender's affair: what was not answered comes again.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// One request.
async fn take(endpoint: &Endpoint, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    if head.uri.path() != endpoint.path {
        return answer(StatusCode::NOT_FOUND);
    }
    if head.method == Method::HEAD {
        return answer(StatusCode::NO_CONTENT);
    }
    if head.method != Method::POST {
        let mut answer = answer(StatusCode::METHOD_NOT_ALLOWED);
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("HEAD, POST"));
        return answer;
    }
    // Before the body is read: who does not claim to be known costs no memory.
    let Some(claim) = Claim::of(&head.headers) else {
        return unsigned();
    };
    let Ok(_pending) = endpoint.pending.try_acquire() else {
        return later();
    };
    let (body, _bytes) = match timeout(BODY_TIMEOUT, read(body, &endpoint.bodies)).await {
        Ok(Ok(read)) => read,
        Ok(Err(answer)) => return answer,
        Err(_) => return answer(StatusCode::REQUEST_TIMEOUT),
    };
    let Claim { id, timestamp, signature } = claim;
    if !signature::is_signed(&endpoint.secrets, &signature, &id, timestamp, &body) {
        return unsigned();
    }
    let (handled, is_handled) = oneshot::channel();
    if endpoint.arrived.try_send(Webhook { id, headers: head.headers, body, handled }).is_err() {
        return later();
    }
    match timeout(HANDLING_MAX, is_handled).await {
        Ok(Ok(())) => answer(StatusCode::NO_CONTENT),
        // Given to the application, which has not said that it is done: nobody knows how far it got.
        Ok(Err(_)) | Err(_) => answer(StatusCode::GATEWAY_TIMEOUT),
    }
}

fn answer(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

fn unsigned() -> Answer {
    let words = Bytes::from_static(b"the signature is missing, old or wrong\n");
    answer(StatusCode::UNAUTHORIZED).map(|_| Full::new(words))
}

/// There is no room now; nothing of the request is kept.
fn later() -> Answer {
    let mut answer = answer(StatusCode::SERVICE_UNAVAILABLE);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Reads a body and holds its share of the memory.
async fn read(
    mut body: Incoming,
    bodies: &Semaphore,
) -> Result<(Bytes, SemaphorePermit<'_>), Answer> {
    let too_large = || answer(StatusCode::PAYLOAD_TOO_LARGE);
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let mut bytes = BytesMut::new();
    let mut held = bodies.try_acquire_many(0).map_err(|_| later())?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| answer(StatusCode::BAD_REQUEST))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > BODY_BYTES_MAX {
            return Err(too_large());
        }
        let count = u32::try_from(data.len()).map_err(|_| too_large())?;
        held.merge(bodies.try_acquire_many(count).map_err(|_| later())?);
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.freeze(), held))
}

/// What a request says about its signature.
struct Claim {
    id: String,
    timestamp: u64,
    signature: String,
}

impl Claim {
    /// The claim, if there is one of these days.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let timestamp = header("webhook-timestamp")?.parse().ok()?;
        let is_recent = now().abs_diff(Duration::from_secs(timestamp)) <= TOLERANCE;
        let (id, signature) = (header("webhook-id")?, header("webhook-signature")?);
        let claim = Self { id: id.to_owned(), timestamp, signature: signature.to_owned() };
        is_recent.then_some(claim)
    }
}
