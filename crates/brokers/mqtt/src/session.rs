//! One connection to a server, after CONNACK: a ledger of publishes that wait for their PUBACK, the
//! quota that the server allows, and a task that reads and keeps alive.
//!
//! A session ends once, with a reason, and is never used again. Whatever waits then learns that no
//! answer will come: nothing is kept to be sent again by itself.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::BytesMut;
use mqtt5_protocol::packet::{publish::PublishPacket, subscribe::SubscribePacket};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Semaphore, mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    outcome::Trouble,
    packet::{self, FromServer, GOODBYE, PING, Publication, Reason},
};

/// Publishes are written together up to this many bytes.
const WRITE_BYTES: usize = 64 * 1024;
/// How long saying goodbye may take.
const GOODBYE_TIME: Duration = Duration::from_secs(1);

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// What the server allows, and how the connection is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// How many publishes may wait for their PUBACK.
    pub(crate) receive_max: u16,
    /// Largest packet it takes.
    pub(crate) packet_bytes_max: usize,
    /// Largest packet that we take, without its first bytes.
    pub(crate) our_packet_bytes_max: usize,
    /// It closes the connection if it hears nothing for longer; zero if it never does.
    pub(crate) keep_alive: Duration,
}

/// A connection in use. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) terms: Terms,
    shared: Arc<Shared>,
    driver: JoinHandle<()>,
}

/// The answer to a packet with an identifier.
#[derive(Debug)]
pub(crate) enum Answer {
    Puback(Reason),
    Suback { codes: Vec<u8>, text: Option<String> },
}

struct Shared {
    /// Locked while packets are written, so they stay whole and in the order of the ledger.
    outlet: tokio::sync::Mutex<Outlet>,
    ledger: Mutex<Ledger>,
    /// How many more publishes the server takes now; closed when the session ends.
    quota: Semaphore,
    /// Why the session ended.
    trouble: OnceLock<Trouble>,
    ended: CancellationToken,
    /// Something arrived since the last ping.
    is_heard: AtomicBool,
    /// How many pings have been answered.
    pongs: watch::Sender<u64>,
}

struct Outlet {
    /// `None` once the session has ended.
    stream: Option<Writer>,
    /// How many have been sent.
    pings: u64,
}

/// What waits for an answer, by packet identifier.
#[derive(Debug, Default)]
struct Ledger {
    last: u16,
    waiting: HashMap<u16, oneshot::Sender<Answer>>,
    /// The session has ended: nothing may wait any more.
    is_closed: bool,
}

impl Ledger {
    /// `None` if the session has ended. The quota keeps at least one identifier free.
    fn enter(&mut self) -> Option<(u16, oneshot::Receiver<Answer>)> {
        if self.is_closed || self.waiting.len() >= usize::from(u16::MAX) {
            return None;
        }
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.waiting.contains_key(&self.last) {
                break;
            }
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(self.last, sender);
        Some((self.last, receiver))
    }
}

impl Session {
    /// Goes on after CONNACK. `buffer` holds what arrived behind it; messages go to `incoming`.
    pub(crate) fn start(
        terms: Terms,
        (reader, writer): (Reader, Writer),
        buffer: BytesMut,
        incoming: mpsc::Sender<PublishPacket>,
    ) -> Self {
        let shared = Arc::new(Shared {
            outlet: tokio::sync::Mutex::new(Outlet { stream: Some(writer), pings: 0 }),
            ledger: Mutex::default(),
            quota: Semaphore::new(terms.receive_max.into()),
            trouble: OnceLock::new(),
            ended: CancellationToken::new(),
            is_heard: AtomicBool::new(true),
            pongs: watch::Sender::new(0),
        });
        let driver = tokio::spawn(drive(Arc::clone(&shared), terms, reader, buffer, incoming));
        Self { terms, shared, driver }
    }

    /// Hands publications to the server in order, as fast as it allows. Each that was handed over
    /// has a receiver of its answer, which is closed if the session ends before. Dropping this in
    /// the middle of a packet ends the session.
    pub(crate) async fn publish(
        &self,
        publications: &[Publication<'_>],
        answers: &mut Vec<oneshot::Receiver<Answer>>,
    ) -> Result<(), Trouble> {
        let mut buffer = BytesMut::new();
        while answers.len() < publications.len() {
            let wanted = publications.len() - answers.len();
            let mut permits = self.permits(wanted).await?;
            let mut outlet = self.shared.outlet.lock().await;
            while permits.num_permits() > 0 {
                let allowed = &publications[answers.len()..][..permits.num_permits()];
                let before = answers.len();
                buffer.clear();
                // What is in the ledger must be on its way.
                let unfinished = Unfinished(Some(&self.shared));
                self.shared.enter(allowed, &mut buffer, answers)?;
                if let Some(entered) = permits.split(answers.len() - before) {
                    // Given back with the answer.
                    entered.forget();
                }
                self.shared.write(&mut outlet, &buffer).await?;
                unfinished.finish();
            }
        }
        Ok(())
    }

    /// As many of the wanted as there are now, at least one.
    async fn permits(&self, wanted: usize) -> Result<tokio::sync::SemaphorePermit<'_>, Trouble> {
        let quota = &self.shared.quota;
        let mut permits = quota.acquire().await.map_err(|_| self.trouble())?;
        let more = (wanted - 1).min(quota.available_permits());
        if let Ok(others) = quota.try_acquire_many(u32::try_from(more).unwrap_or(u32::MAX)) {
            permits.merge(others);
        }
        Ok(permits)
    }

    /// Subscribes, and waits for the answer. The identifier of `packet` is set here.
    pub(crate) async fn subscribe(&self, mut packet: SubscribePacket) -> Result<Answer, Trouble> {
        let mut outlet = self.shared.outlet.lock().await;
        let Some((id, answer)) = self.shared.ledger().enter() else { return Err(self.trouble()) };
        packet.packet_id = id;
        let mut buffer = BytesMut::new();
        packet::encode(&packet, &mut buffer)
            .map_err(|error| Trouble::Malformed(error.to_string()))?;
        self.shared.write(&mut outlet, &buffer).await?;
        drop(outlet);
        answer.await.map_err(|_| self.trouble())
    }

    /// Writes whole packets.
    pub(crate) async fn write(&self, packets: &[u8]) -> Result<(), Trouble> {
        let mut outlet = self.shared.outlet.lock().await;
        self.shared.write(&mut outlet, packets).await
    }

    /// Sends a ping; gives its number.
    pub(crate) async fn ping(&self) -> Result<u64, Trouble> {
        self.shared.ping().await
    }

    /// Waits for the answer to a ping: then the server has taken in all that was written before.
    pub(crate) async fn pong(&self, ping: u64) -> Result<(), Trouble> {
        let mut pongs = self.shared.pongs.subscribe();
        tokio::select! {
            _ = pongs.wait_for(|count| *count >= ping) => Ok(()),
            () = self.shared.ended.cancelled() => Err(self.trouble()),
        }
    }

    /// Says goodbye and ends the session.
    pub(crate) async fn close(&self) {
        // A server that cannot be told will notice.
        let _ = timeout(GOODBYE_TIME, self.write(&GOODBYE)).await;
        self.end(Trouble::Closed);
    }

    /// Ends the session, if it has not ended already.
    pub(crate) fn end(&self, trouble: Trouble) {
        self.shared.end(trouble);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ended.is_cancelled()
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) {
        self.shared.ended.cancelled().await;
    }

    /// Why it ended.
    pub(crate) fn trouble(&self) -> Trouble {
        self.shared.trouble()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end(Trouble::Closed);
        self.driver.abort();
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters publications into the ledger and writes them to `buffer`, until it is full.
    fn enter(
        &self,
        publications: &[Publication<'_>],
        buffer: &mut BytesMut,
        answers: &mut Vec<oneshot::Receiver<Answer>>,
    ) -> Result<(), Trouble> {
        let mut ledger = self.ledger();
        for publication in publications {
            if !buffer.is_empty() && buffer.len() + publication.size() > WRITE_BYTES {
                break;
            }
            let Some((id, answer)) = ledger.enter() else {
                return Err(self.trouble());
            };
            publication.encode(id, buffer);
            answers.push(answer);
        }
        Ok(())
    }

    /// Writes whole packets. Ends the session if it cannot, or is dropped in the middle.
    async fn write(&self, outlet: &mut Outlet, packets: &[u8]) -> Result<(), Trouble> {
        let Some(stream) = &mut outlet.stream else { return Err(self.trouble()) };
        let mut unfinished = Unfinished(None);
        let write = async {
            let mut rest = packets;
            while !rest.is_empty() {
                match stream.write(rest).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    count => rest = &rest[count..],
                }
                unfinished.0 = Some(self).filter(|_| !rest.is_empty());
            }
            stream.flush().await
        };
        let written = tokio::select! {
            written = write => written,
            () = self.ended.cancelled() => return Err(self.trouble()),
        };
        written.map_err(|error| {
            self.end(Trouble::from_io(&error));
            self.trouble()
        })
    }

    async fn ping(&self) -> Result<u64, Trouble> {
        let mut outlet = self.outlet.lock().await;
        self.write(&mut outlet, &PING).await?;
        outlet.pings += 1;
        Ok(outlet.pings)
    }

    fn trouble(&self) -> Trouble {
        self.trouble.get().cloned().unwrap_or(Trouble::Closed)
    }

    fn end(&self, trouble: Trouble) {
        // The first reason is the cause of the others.
        let _ = self.trouble.set(trouble);
        let mut ledger = self.ledger();
        ledger.is_closed = true;
        // Receivers learn that nothing will come.
        ledger.waiting.clear();
        drop(ledger);
        self.quota.close();
        self.ended.cancel();
    }

    /// Takes in a packet; messages are given back.
    fn take(&self, packet: FromServer) -> Result<Option<PublishPacket>, Trouble> {
        let (id, answer) = match packet {
            FromServer::Publish(publish) => return Ok(Some(*publish)),
            FromServer::Puback { id, reason } => (id, Answer::Puback(reason)),
            FromServer::Suback { id, codes, text } => (id, Answer::Suback { codes, text }),
            FromServer::Pong => {
                self.pongs.send_modify(|count| *count += 1);
                return Ok(None);
            }
            FromServer::Disconnect(reason) => return Err(Trouble::Disconnected(reason)),
            FromServer::Connack { .. } => {
                return Err(Trouble::Malformed("a second CONNACK".into()));
            }
        };
        let is_publish = matches!(answer, Answer::Puback(_));
        let Some(waiting) = self.ledger().waiting.remove(&id) else {
            // Taken for the answer to a later packet of that number it would be a false receipt.
            return Err(Trouble::Malformed(format!("an answer to nothing, {id}")));
        };
        if is_publish {
            self.quota.add_permits(1);
        }
        // Whoever waited may have given up.
        let _ = waiting.send(answer);
        Ok(None)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("trouble", &self.trouble).finish_non_exhaustive()
    }
}

/// A write that is dropped in the middle leaves half a packet behind.
struct Unfinished<'a>(Option<&'a Shared>);

impl Unfinished<'_> {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.end(Trouble::Timeout("room for more bytes"));
        }
    }
}

/// Runs a session to its end, then closes the connection.
async fn drive(
    shared: Arc<Shared>,
    terms: Terms,
    reader: Reader,
    buffer: BytesMut,
    incoming: mpsc::Sender<PublishPacket>,
) {
    tokio::select! {
        trouble = read(&shared, terms, reader, buffer, &incoming) => shared.end(trouble),
        trouble = ping(&shared, terms.keep_alive, &incoming) => shared.end(trouble),
        () = shared.ended.cancelled() => {}
    }
    // Whoever writes sees the end and lets go.
    shared.outlet.lock().await.stream = None;
}

async fn read(
    shared: &Shared,
    terms: Terms,
    mut reader: Reader,
    mut buffer: BytesMut,
    incoming: &mpsc::Sender<PublishPacket>,
) -> Trouble {
    loop {
        loop {
            let message = match packet::take(&mut buffer, terms.our_packet_bytes_max) {
                Ok(None) => break,
                Ok(Some(packet)) => shared.take(packet),
                Err(what) => return Trouble::Malformed(what),
            };
            match message {
                Ok(None) => {}
                Ok(Some(message)) => {
                    if incoming.send(message).await.is_err() {
                        return Trouble::Malformed("a message nobody asked for".to_owned());
                    }
                }
                Err(trouble) => return trouble,
            }
        }
        match reader.read_buf(&mut buffer).await {
            Ok(0) => return Trouble::Connection("the server closed the connection".to_owned()),
            Ok(_) => shared.is_heard.store(true, Relaxed),
            Err(error) => return Trouble::from_io(&error),
        }
    }
}

/// Pings twice in the time that the server waits for a sign of life. No answer by the next ping, and
/// the connection is dead.
async fn ping(
    shared: &Shared,
    keep_alive: Duration,
    incoming: &mpsc::Sender<PublishPacket>,
) -> Trouble {
    if keep_alive.is_zero() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(keep_alive / 2).await;
        // Nothing is read while the consumer has not made room.
        let is_held = incoming.capacity() == 0 && !incoming.is_closed();
        if !shared.is_heard.swap(false, Relaxed) && !is_held {
            return Trouble::Timeout("answer to a ping");
        }
        if let Err(trouble) = shared.ping().await {
            return trouble;
        }
    }
}
