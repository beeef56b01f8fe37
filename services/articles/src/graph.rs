//! The consumer process: receives likes from any number of producers, stores them, acknowledges
//! them, and shows them.

mod page;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use futures::FutureExt;
use posthaste::{
    Incoming, Sharing, Start, Subscriber, Subscription,
    tcp::{Config, TcpSubscriber},
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::{
    args, http, plot,
    replica::{Applied, Replica, Wanted},
    series::{POINTS_MAX, ROWS_MAX, Series},
    storage::TOPIC,
};

/// Most messages kept in one transaction.
const BATCH_MAX: usize = 500;
/// Wait after the replica could not be written.
const PAUSE: Duration = Duration::from_secs(1);

/// A consumer, about to run.
pub struct Graph {
    subscriber: TcpSubscriber,
    page: TcpListener,
    shown: Shown,
}

/// What the page shows. Clones share it.
#[derive(Clone)]
pub(crate) struct Shown {
    replica: Replica,
    /// Counts stored batches; pages wait for the next one.
    changes: Arc<watch::Sender<u64>>,
    /// Messages that came again since this process began.
    repeated: Arc<AtomicU64>,
    out: PathBuf,
}

impl Graph {
    /// Opens the replica and listens.
    ///
    /// # Errors
    /// When the replica cannot be used, or an address is taken.
    pub async fn open(args: &args::Graph) -> anyhow::Result<Self> {
        let replica = Replica::open(&args.database).await.context("cannot open the replica")?;
        let config = Config::new(format!("tcp://{}", args.listen));
        let topics = vec![TOPIC.parse().context("a topic is a pattern")?];
        let subscription = Subscription {
            name: None,
            topics,
            start: Start::Beginning,
            sharing: Sharing::Competing,
        };
        let subscriber = posthaste::tcp::subscribe(&config, &subscription).await?;
        let page = TcpListener::bind(args.http)
            .await
            .with_context(|| format!("cannot listen on {}; --http chooses", args.http))?;
        let (changes, repeated) = (Arc::default(), Arc::default());
        let shown = Shown { replica, changes, repeated, out: args.out.clone() };
        Ok(Self { subscriber, page, shown })
    }

    /// Where producers connect to.
    #[must_use]
    pub fn consumer_address(&self) -> SocketAddr {
        self.subscriber.address()
    }

    /// Where the page is.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn page_address(&self) -> std::io::Result<SocketAddr> {
        self.page.local_addr()
    }

    /// Receives and shows until stopped, then draws; returns where.
    ///
    /// # Errors
    /// When the graph cannot be written.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<Vec<PathBuf>> {
        let router = page::router(self.shown.clone(), stop.clone());
        let offered = http::run(self.page, router, stop.clone());
        let received = stop.run_until_cancelled(receive(self.subscriber, &self.shown));
        tokio::join!(offered, received);
        self.shown.draw().await
    }
}

impl Shown {
    /// Writes the graph of everything there is to the folder; returns where.
    pub(crate) async fn draw(&self) -> anyhow::Result<Vec<PathBuf>> {
        let series = self.replica.series(Wanted::default(), POINTS_MAX).await?;
        let table = self.replica.series(Wanted::default(), ROWS_MAX).await?;
        let out = self.out.clone();
        tokio::task::spawn_blocking(move || write(&out, &series, &table)).await?
    }
}

/// Writes data.png, data.svg and data.csv; returns where.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write(out: &Path, series: &Series, table: &Series) -> anyhow::Result<Vec<PathBuf>> {
    let files = [
        ("data.png", plot::png(series)?),
        ("data.svg", plot::svg(series)?.into_bytes()),
        ("data.csv", table.csv().into_bytes()),
    ];
    let mut written = Vec::new();
    for (name, bytes) in files {
        let path = out.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path);
    }
    Ok(written)
}

/// Receives likes, stores them, and only then acknowledges them.
async fn receive(mut subscriber: TcpSubscriber, shown: &Shown) {
    loop {
        let messages = match batch(&mut subscriber).await {
            Ok(messages) => messages,
            Err(error) => {
                error!(%error, "cannot receive");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        match shown.replica.apply(&messages).await {
            Ok(applied) => {
                acknowledge(&mut subscriber, &messages).await;
                tell(shown, applied);
            }
            // The batch is not acknowledged, so it comes again.
            Err(error) => {
                error!(%error, messages = messages.len(), "cannot write the replica");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The next message, and those that are there already.
async fn batch(subscriber: &mut TcpSubscriber) -> Result<Vec<Incoming>, posthaste::BrokerError> {
    let mut messages = vec![subscriber.receive().await?];
    while messages.len() < BATCH_MAX {
        match subscriber.receive().now_or_never() {
            Some(Ok(message)) => messages.push(message),
            // An error will be there again next time.
            Some(Err(_)) | None => break,
        }
    }
    Ok(messages)
}

async fn acknowledge(subscriber: &mut TcpSubscriber, messages: &[Incoming]) {
    for message in messages {
        // The sender has gone and will send the batch again; the batch is stored, so the duplicate
        // does no harm.
        if let Err(error) = subscriber.acknowledge(message.receipt).await {
            debug!(%error, "not acknowledged");
        }
    }
}

fn tell(shown: &Shown, applied: Applied) {
    debug!(?applied, "kept");
    if applied.refused > 0 {
        warn!(messages = applied.refused, "refused invalid events; the replica has the reasons");
    }
    shown.repeated.fetch_add(applied.repeated, Ordering::Relaxed);
    shown.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
}
