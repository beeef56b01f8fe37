//! Dialling, TLS, and a connection with the channels that are open on it.

use std::{
    cell::RefCell,
    io,
    net::{Shutdown, SocketAddr, TcpStream},
    os::fd::AsFd,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{AsyncRead, AsyncWrite};
use lapin::{
    AsyncTcpStream, Channel, Connection, ConnectionProperties, ExchangeKind,
    options::{ConfirmSelectOptions, ExchangeDeclareOptions},
    tcp::RustlsConnector,
    types::FieldTable,
};
use tokio::{
    net::lookup_host,
    sync::{Semaphore, SemaphorePermit},
};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};

use crate::{
    config::Settings,
    outcome::{Stage, Trouble},
};

/// Most channels of a connection, which is most parts of calls on their way at once. RabbitMQ allows
/// 2047 unless told otherwise.
const CHANNELS_MAX: usize = 64;

/// A connection and its channels. Dropping it ends it at once.
pub(crate) struct Session {
    connection: Connection,
    /// Ends the connection on drop.
    socket: Socket,
    /// Channels in confirm mode with nothing on its way. A part of a call has a channel for itself.
    idle: Mutex<Vec<Channel>>,
    /// As many permits as channels may be open.
    room: Semaphore,
    /// Set when something on it was left without an answer: nothing is sent any more.
    is_spent: AtomicBool,
}

/// A channel that is taken for a while.
pub(crate) struct Taken<'a> {
    pub(crate) channel: Channel,
    _room: SemaphorePermit<'a>,
}

/// Our own hold on the connection's socket, because the driver waits for a server that may never
/// answer before it lets go of one.
struct Socket(TcpStream);

impl Drop for Socket {
    fn drop(&mut self) {
        // It fails where the connection is closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Socket {
    fn of(stream: &impl AsFd) -> io::Result<Self> {
        Ok(Self(stream.as_fd().try_clone_to_owned()?.into()))
    }
}

impl Session {
    /// Dials, logs in and sees to the exchange. Nothing is left behind when it is dropped.
    pub(crate) async fn open(settings: &Settings) -> Result<Self, Trouble> {
        let session = Box::pin(Self::dial(settings)).await?;
        let channel = session.new_channel().await?;
        ensure_exchange(settings, &channel).await.map_err(Stage::Open.of())?;
        session.idle().push(channel);
        Ok(session)
    }

    /// Dials and logs in.
    pub(crate) async fn dial(settings: &Settings) -> Result<Self, Trouble> {
        let runtime = lapin::runtime::default_runtime().map_err(Stage::Connect.of())?;
        let host = (settings.host(), settings.uri.authority.port);
        let addresses = lookup_host(host).await.map_err(Stage::Connect.of())?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let stream = AsyncTcpStream::connect(&runtime, addresses).await;
        let stream = stream.map_err(Stage::Connect.of())?;
        let AsyncTcpStream::Plain(plain) = &stream else {
            return Err(Stage::Connect.of()(io::Error::other("the driver dialled otherwise")));
        };
        let socket = Socket::of(plain.get_ref()).map_err(Stage::Connect.of())?;
        let stream = secured(settings, stream).await?;
        // The driver wants to dial by itself, from a thread that cannot be stopped while it waits.
        let stream = Mutex::new(Some(stream));
        let hand_over = async move |_, _| {
            be_quiet();
            let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
            stream.ok_or_else(|| io::Error::other("is dialled once").into())
        };
        let uri = settings.uri.clone();
        let properties = ConnectionProperties::default().with_connection_name("posthaste".into());
        let connection = Connection::connector(uri, runtime, hand_over, properties);
        Ok(Self {
            connection: connection.await.map_err(Stage::Connect.of())?,
            socket,
            idle: Mutex::default(),
            room: Semaphore::new(CHANNELS_MAX),
            is_spent: AtomicBool::new(false),
        })
    }

    /// A channel in confirm mode, alone in its use. Waits while too many are taken.
    pub(crate) async fn take_channel(&self) -> Result<Taken<'_>, Trouble> {
        let room =
            self.room.acquire().await.map_err(|error| Stage::Open.of()(io::Error::other(error)))?;
        let idle = self.idle().pop();
        let channel = match idle {
            Some(channel) => channel,
            None => self.new_channel().await?,
        };
        Ok(Taken { channel, _room: room })
    }

    /// Gives back a channel on which everything was answered. Any other is just dropped.
    pub(crate) fn give_back(&self, taken: Taken<'_>) {
        self.idle().push(taken.channel);
    }

    /// A channel for anything but publishing.
    pub(crate) async fn plain_channel(&self) -> Result<Channel, Trouble> {
        self.connection.create_channel().await.map_err(Stage::Open.of())
    }

    async fn new_channel(&self) -> Result<Channel, Trouble> {
        let channel = self.plain_channel().await?;
        let confirmed = channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirmed.map_err(Stage::Open.of())?;
        Ok(channel)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something may be sent on it, as far as is known.
    pub(crate) fn is_usable(&self) -> bool {
        self.connection.status().connected() && !self.is_spent.load(Ordering::Acquire)
    }

    /// Whether RabbitMQ has said that it takes nothing for now: it is short of memory or disk.
    pub(crate) fn is_blocked(&self) -> bool {
        self.connection.status().connected() && self.connection.status().blocked()
    }

    /// Largest frame that RabbitMQ takes.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        usize::try_from(self.connection.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// Sees to it that nothing more is sent, not even what the driver still holds. A connection that
    /// is blocked stays open to hear when that is over; any other is closed.
    pub(crate) fn hang_up(&self) {
        self.is_spent.store(true, Ordering::Release);
        let how = if self.is_blocked() { Shutdown::Write } else { Shutdown::Both };
        // It fails where the connection is closed already.
        let _ = self.socket.0.shutdown(how);
    }

    /// Closes in good order.
    pub(crate) async fn close(&self) {
        // A server that does not care to answer finds the connection closed anyway.
        let _ = self.connection.close(200, "OK".into()).await;
    }
}

/// Declares the exchange, or looks whether it is there.
async fn ensure_exchange(settings: &Settings, channel: &Channel) -> lapin::Result<()> {
    if settings.is_default_exchange() {
        Ok(())
    } else if settings.declare {
        declare_exchange(settings, channel).await
    } else {
        find_exchange(settings, channel).await
    }
}

/// Declares the exchange. Fails where there is one of that name that is not the same.
pub(crate) async fn declare_exchange(settings: &Settings, channel: &Channel) -> lapin::Result<()> {
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let name = settings.exchange.clone();
    channel.exchange_declare(name, ExchangeKind::Topic, options, FieldTable::default()).await
}

/// Looks whether there is an exchange of that name. Fails where there is none.
pub(crate) async fn find_exchange(settings: &Settings, channel: &Channel) -> lapin::Result<()> {
    let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
    let name = settings.exchange.clone();
    channel.exchange_declare(name, ExchangeKind::Topic, options, FieldTable::default()).await
}

/// Puts TLS around a stream, if that is wanted. Certificates are always verified.
async fn secured<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    settings: &Settings,
    stream: AsyncTcpStream<S>,
) -> Result<AsyncTcpStream<S>, Trouble> {
    let Some(tls) = &settings.tls else { return Ok(stream) };
    let connector = RustlsConnector::from(tls.client.clone());
    stream.into_rustls(&connector, settings.host()).await.map_err(Stage::Tls.of())
}

thread_local! {
    /// Kept for as long as the thread lives.
    static QUIET: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// The driver's thread logs every message that comes back, payload and all. What it has to say of
/// errors, it also returns.
fn be_quiet() {
    QUIET.set(Some(set_default(NoSubscriber::default())));
}
