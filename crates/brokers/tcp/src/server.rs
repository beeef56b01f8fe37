//! The listener behind a subscriber. Anybody may talk to it, so everything it does for a stranger is
//! bounded: connections, the time of a frame, and the memory of what they send.

use std::{
    collections::{HashSet, VecDeque},
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use posthaste_core::Seq;
use posthaste_wire::Wire;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::{debug, warn};

use crate::{
    Config,
    ack::NativeAck,
    frame,
    subscribe::{Pending, Progress},
};

/// Connections at once; the next one waits to be accepted.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Names of batches that are remembered as handled.
const HANDLED_MAX: usize = 1024;
/// All frames that are being read or handled hold this much memory, or twice the largest frame.
const FRAMES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest wait for the rest of a frame, and for a relay that does not read its acknowledgement.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest silence between frames. Who is gone without a word must not keep a place for ever; a relay
/// that was only idle connects again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;
/// How long to leave the system alone when it has no more connections to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the server does with what comes.
pub(crate) struct Endpoint {
    wire: Wire,
    frame_bytes_max: usize,
    arrived: mpsc::Sender<Pending>,
    handled: Arc<Handled>,
    bytes: Arc<Semaphore>,
}

impl Endpoint {
    pub(crate) fn new(
        config: &Config,
        arrived: mpsc::Sender<Pending>,
        handled: Arc<Handled>,
    ) -> Self {
        let bytes = FRAMES_BYTES_MAX.max(2 * config.frame_bytes_max);
        Self {
            wire: config.line_wire(),
            frame_bytes_max: config.frame_bytes_max,
            arrived,
            handled,
            bytes: Arc::new(Semaphore::new(bytes)),
        }
    }
}

/// Batches that were handled completely: the names of the latest.
#[derive(Debug, Default)]
pub(crate) struct Handled {
    /// Held for a moment, never across an await.
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    known: HashSet<String>,
    /// The same, oldest first.
    order: VecDeque<String>,
}

impl Handled {
    /// Remembers a batch, and forgets the oldest for it.
    pub(crate) fn add(&self, batch: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.known.insert(batch.to_owned()) {
            return;
        }
        names.order.push_back(batch.to_owned());
        if names.order.len() > HANDLED_MAX
            && let Some(oldest) = names.order.pop_front()
        {
            names.known.remove(&oldest);
        }
    }

    /// Whether a batch is remembered.
    pub(crate) fn has(&self, batch: &str) -> bool {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).known.contains(batch)
    }
}

/// Why a connection ended.
enum End {
    /// The relay closed it, or the subscriber is gone.
    Over,
    /// The network did.
    Lost(io::Error),
    /// What came is not what we speak.
    Malformed(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over => f.write_str("over"),
            Self::Lost(error) => error.fmt(f),
            Self::Malformed(words) => f.write_str(words),
        }
    }
}

/// Serves until it is dropped; every connection ends with it.
pub(crate) async fn serve(listener: TcpListener, endpoint: Endpoint) {
    let endpoint = Arc::new(endpoint);
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, from)) => {
                let endpoint = Arc::clone(&endpoint);
                connections.spawn(async move {
                    report(from, &connection(stream, &endpoint).await);
                    drop(permit);
                });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

fn report(from: SocketAddr, end: &End) {
    match end {
        End::Over | End::Lost(_) => debug!(%from, %end, "connection ended"),
        End::Malformed(_) => warn!(%from, why = %end, "connection closed: not a batch"),
    }
}

async fn connection(stream: TcpStream, endpoint: &Endpoint) -> End {
    let _ = stream.set_nodelay(true);
    let mut connection = Connection {
        stream,
        buffer: BytesMut::new(),
        held: match Arc::clone(&endpoint.bytes).try_acquire_many_owned(0) {
            Ok(held) => held,
            Err(_) => return End::Over,
        },
    };
    loop {
        if let Err(end) = connection.batch(endpoint).await {
            return end;
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// What has come and is not a complete frame.
    buffer: BytesMut,
    /// As many permits as there are bytes in the buffer.
    held: OwnedSemaphorePermit,
}

impl Connection {
    /// Takes one batch, from its first byte to its last acknowledgement.
    async fn batch(&mut self, endpoint: &Endpoint) -> Result<(), End> {
        let (line, bytes) = self.line(endpoint).await?;
        let arrived = frame::read(&line, &endpoint.wire).map_err(End::Malformed)?;
        drop(line);
        let positions: Vec<Seq> = arrived.events.iter().map(|event| event.seq).collect();
        if endpoint.handled.has(&arrived.batch) {
            let last = positions.last().copied().unwrap_or_default();
            return self.answer(arrived.batch, last).await;
        }
        let (progress, counted) = Progress::new(arrived.batch.clone(), positions.len());
        let pending = Pending { events: arrived.events, progress, bytes };
        endpoint.arrived.send(pending).await.map_err(|_| End::Over)?;
        self.follow(arrived.batch, &positions, counted).await
    }

    /// Passes on how far a batch is, until all of it is done or the relay is gone.
    async fn follow(
        &mut self,
        batch: String,
        positions: &[Seq],
        mut counted: watch::Receiver<usize>,
    ) -> Result<(), End> {
        let mut told = 0;
        let mut is_watching = true;
        let mut byte = [0];
        while told < positions.len() {
            tokio::select! {
                changed = counted.changed() => changed.map_err(|_| End::Over)?,
                seen = self.stream.peek(&mut byte), if is_watching => match seen? {
                    0 => return Err(End::Over),
                    // It has sent more before its time, and hides how it ends behind that.
                    _ => is_watching = false,
                },
            }
            let count = *counted.borrow_and_update();
            if count > told {
                self.answer(batch.clone(), positions[count - 1]).await?;
                told = count;
            }
        }
        Ok(())
    }

    async fn answer(&mut self, batch: String, position: Seq) -> Result<(), End> {
        let line = NativeAck { batch, position }.line();
        match timeout(FRAME_TIMEOUT, self.stream.write_all(&line)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(End::Lost(io::ErrorKind::TimedOut.into())),
        }
    }

    /// The next line, and its share of the memory.
    async fn line(&mut self, endpoint: &Endpoint) -> Result<(Bytes, OwnedSemaphorePermit), End> {
        let mut searched = 0;
        let idle_until = Instant::now() + IDLE_TIMEOUT;
        let mut until = None;
        loop {
            let found = self.buffer[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(found) = found {
                let length = searched + found + 1;
                self.check(length, endpoint)?;
                let line = self.buffer.split_to(length).freeze();
                let bytes = self.held.split(length).ok_or(End::Over)?;
                return Ok((line, bytes));
            }
            searched = self.buffer.len();
            self.check(searched + 1, endpoint)?;
            if searched > 0 {
                until = until.or(Some(Instant::now() + FRAME_TIMEOUT));
            }
            self.read(endpoint, until.unwrap_or(idle_until)).await?;
        }
    }

    fn check(&self, length: usize, endpoint: &Endpoint) -> Result<(), End> {
        let max = endpoint.frame_bytes_max;
        if length <= max {
            return Ok(());
        }
        Err(End::Malformed(format!("a frame has more than {max} bytes (frame_bytes_max)")))
    }

    async fn read(&mut self, endpoint: &Endpoint, until: Instant) -> Result<(), End> {
        self.buffer.reserve(READ_BYTES);
        let read = self.stream.read_buf(&mut self.buffer);
        let count = timeout_at(until, read).await.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, "nothing came for too long"))
        })?;
        if count == 0 {
            return Err(End::Over);
        }
        let permits = u32::try_from(count).unwrap_or(u32::MAX);
        let Ok(share) = Arc::clone(&endpoint.bytes).try_acquire_many_owned(permits) else {
            return Err(End::Malformed("too many bytes wait to be handled: come again".to_owned()));
        };
        self.held.merge(share);
        Ok(())
    }
}
