//! A receiver of webhooks, for tests in which a broker refuses one message and takes all others.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use posthaste_e2e::eventually;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

/// What the body of a refused message begins with.
const POISON: &str = "poison";

/// A receiver of webhooks that refuses a message for as long as it is told to.
pub(crate) struct Receiver {
    url: String,
    /// Whether messages that begin with [`POISON`] are refused.
    refuses: Arc<AtomicBool>,
    /// Bodies of all messages that were accepted, in order.
    taken: Arc<Mutex<Vec<String>>>,
    _server: AbortOnDropHandle<()>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        let refuses = Arc::new(AtomicBool::new(true));
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (refused, kept) = (refuses.clone(), taken.clone());
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, refused.clone(), kept.clone()));
            }
        });
        Self { url, refuses, taken, _server: AbortOnDropHandle::new(server) }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Refuses nothing from now on.
    pub(crate) fn accept_all(&self) {
        self.refuses.store(false, Ordering::Relaxed);
    }

    /// Bodies of all messages that were accepted, in order.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.taken.lock().expect("nobody panicked").clone()
    }

    /// Waits until a message with this body was accepted.
    pub(crate) async fn wait_for(&self, body: &str) {
        let has_come = async || self.taken().iter().any(|it| it == body).then_some(());
        eventually(body, has_come).await;
    }
}

/// Answers requests of one connection: 422 to what is refused, 200 to all else.
async fn serve(stream: TcpStream, refuses: Arc<AtomicBool>, taken: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            match stream.read_line(&mut line).await {
                Ok(read) if read > 0 => {}
                _ => return,
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().expect("a number");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let body = String::from_utf8(body).expect("text");
        let is_refused = body.starts_with(POISON) && refuses.load(Ordering::Relaxed);
        let status = if is_refused { "422 Unprocessable Content" } else { "200 OK" };
        if !is_refused {
            taken.lock().expect("nobody panicked").push(body);
        }
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
