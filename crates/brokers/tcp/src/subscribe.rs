//! Receiving: a listener that takes batches and answers as their messages are acknowledged.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    vec,
};

use async_trait::async_trait;
use posthaste_core::{BrokerError, Incoming, Sharing, Subscriber, Subscription, TopicPattern};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, mpsc, watch},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    Config, Frames,
    frame::ArrivedEvent,
    server::{self, CONNECTIONS_MAX, Endpoint, Handled},
};

/// Receives batches from any number of relays.
///
/// A relay gets the position of its batch as the messages are acknowledged, from the first on. When
/// its connection ends, what was not acknowledged comes again on the next. A batch of which all was
/// acknowledged is acknowledged again, and not given out again, when it comes again; the names of
/// the last 1,024 are remembered for that, in memory. What has to outlive this process is for the
/// receiver to keep: the ids it has handled, or, of every source *and key*, the latest
/// [`Provenance::seq`](posthaste_core::Provenance::seq). Of a source alone that is not enough: while
/// one message is put aside, later ones of other keys come.
#[derive(Debug)]
pub struct TcpSubscriber {
    address: SocketAddr,
    topics: Vec<TopicPattern>,
    arriving: mpsc::Receiver<Pending>,
    /// The batch that is being given out.
    current: Option<Current>,
    /// Given out and not acknowledged: the batch, and the place in it.
    open: HashMap<u64, (Arc<Progress>, usize)>,
    next_receipt: u64,
    handled: Arc<Handled>,
    /// The server ends with the subscriber.
    _server: AbortOnDropHandle<()>,
}

impl TcpSubscriber {
    /// Where it listens; of interest where the URL said port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Listens where the URL points, which must be an address of this machine; port 0 is any free one.
/// There are no subscriptions: what is not received is sent again by the relay, so the name and the
/// start of the subscription do not matter; other topics are acknowledged and skipped.
///
/// # Errors
/// When the configuration breaks a rule, says original frames, or the address cannot be listened on.
pub async fn subscribe(
    config: &Config,
    subscription: &Subscription,
) -> Result<TcpSubscriber, BrokerError> {
    let failed = |message: String| BrokerError { message, source: None };
    let target = config.target().map_err(|invalid| failed(invalid.to_string()))?;
    if subscription.sharing == Sharing::Ordered {
        return Err(failed(
            "a producer that reconnects sends again beside what is still being handled: there is no \
             ordered subscription"
                .to_owned(),
        ));
    }
    if config.frames != Frames::Native {
        return Err(failed("only native frames can be received: set `frames`".to_owned()));
    }
    let listener = TcpListener::bind((target.host.as_str(), target.port))
        .await
        .map_err(|error| failed(format!("cannot listen on {target}: {error}")))?;
    let address = listener.local_addr().map_err(|error| failed(error.to_string()))?;
    let (arrived, arriving) = mpsc::channel(CONNECTIONS_MAX);
    let handled = Arc::new(Handled::default());
    let endpoint = Endpoint::new(config, arrived, Arc::clone(&handled));
    let server = tokio::spawn(server::serve(listener, endpoint));
    Ok(TcpSubscriber {
        address,
        topics: subscription.topics.clone(),
        arriving,
        current: None,
        open: HashMap::new(),
        next_receipt: 0,
        handled,
        _server: AbortOnDropHandle::new(server),
    })
}

/// A batch that arrived.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) events: Vec<ArrivedEvent>,
    pub(crate) progress: Arc<Progress>,
    /// Its share of the memory, until everything has been given out.
    pub(crate) bytes: OwnedSemaphorePermit,
}

/// How far a batch is.
#[derive(Debug)]
pub(crate) struct Progress {
    batch: String,
    /// Which messages are acknowledged. Held for a moment, never across an await.
    acked: Mutex<Vec<bool>>,
    /// How many are, from the first on: what its connection waits for. Closed when that is gone.
    count: watch::Sender<usize>,
}

impl Progress {
    /// Of so many messages, none so far; and where its connection sees how far it is.
    pub(crate) fn new(batch: String, messages: usize) -> (Arc<Self>, watch::Receiver<usize>) {
        let (count, counted) = watch::channel(0);
        (Arc::new(Self { batch, acked: Mutex::new(vec![false; messages]), count }), counted)
    }

    fn is_gone(&self) -> bool {
        self.count.is_closed()
    }

    /// Takes an acknowledgement in. Whether it was the last.
    fn acknowledge(&self, place: usize) -> bool {
        let mut acked = self.acked.lock().unwrap_or_else(PoisonError::into_inner);
        acked[place] = true;
        let mut count = *self.count.borrow();
        while acked.get(count) == Some(&true) {
            count += 1;
        }
        self.count.send_replace(count);
        count == acked.len()
    }

    fn acknowledge_all(&self) {
        let mut acked = self.acked.lock().unwrap_or_else(PoisonError::into_inner);
        acked.fill(true);
        self.count.send_replace(acked.len());
    }
}

/// A batch that is being given out.
#[derive(Debug)]
struct Current {
    events: std::iter::Enumerate<vec::IntoIter<ArrivedEvent>>,
    progress: Arc<Progress>,
    _bytes: OwnedSemaphorePermit,
}

impl TcpSubscriber {
    /// The next message of the batch that is being given out.
    fn next(&mut self) -> Option<Incoming> {
        let current = self.current.as_mut()?;
        for (place, event) in current.events.by_ref() {
            if current.progress.is_gone() {
                // The rest comes again; so does what was acknowledged of it, if nobody heard.
                break;
            }
            let ArrivedEvent { message, provenance, .. } = event;
            if !self.topics.iter().any(|pattern| pattern.matches(&message.topic)) {
                if current.progress.acknowledge(place) {
                    self.handled.add(&current.progress.batch);
                }
                continue;
            }
            let receipt = self.next_receipt;
            self.next_receipt += 1;
            self.open.insert(receipt, (Arc::clone(&current.progress), place));
            return Some(Incoming { message, provenance, receipt, lane: None });
        }
        self.current = None;
        None
    }

    /// Begins to give out a batch, unless it was handled since it came.
    fn begin(&mut self, Pending { events, progress, bytes }: Pending) {
        self.open.retain(|_, (progress, _)| !progress.is_gone());
        if self.handled.has(&progress.batch) {
            progress.acknowledge_all();
            return;
        }
        let events = events.into_iter().enumerate();
        self.current = Some(Current { events, progress, _bytes: bytes });
    }
}

#[async_trait]
impl Subscriber for TcpSubscriber {
    async fn receive(&mut self) -> Result<Incoming, BrokerError> {
        loop {
            if let Some(incoming) = self.next() {
                return Ok(incoming);
            }
            let Some(pending) = self.arriving.recv().await else {
                let message = "the server that receives batches has ended".to_owned();
                return Err(BrokerError { message, source: None });
            };
            self.begin(pending);
        }
    }

    async fn acknowledge(&mut self, receipt: u64) -> Result<(), BrokerError> {
        let gone = || BrokerError {
            message: "the connection of the message is gone: it will come again".to_owned(),
            source: None,
        };
        let (progress, place) = self.open.remove(&receipt).ok_or_else(gone)?;
        if progress.acknowledge(place) {
            // Also where the connection is gone: then the batch is not given out when it comes again.
            self.handled.add(&progress.batch);
            return Ok(());
        }
        if progress.is_gone() { Err(gone()) } else { Ok(()) }
    }
}
