//! What cases share: short ways to enqueue, claim, read and settle.

use std::{sync::Arc, time::Duration};

use posthaste_core::{
    Batch, Claim, Failure, Fetch, Fetched, Grant, Layout, Lease, Message, Next, Park, Position,
    RelayId, Repark, RouteSpec, Seq, Settled, Settlement, Shard, Store, StoreError, StoreErrorKind,
};

use super::TestBed;

/// The route most cases use; it takes every topic.
pub(super) const ROUTE: &str = "everything";

/// How long leases last in cases: far longer than any case runs, so that they end only by
/// [`TestBed::advance`].
pub(super) const TTL: Duration = Duration::from_secs(24 * 3600);

/// A bed and its store.
#[derive(Clone)]
pub(super) struct Kit {
    pub(super) bed: Arc<dyn TestBed>,
    pub(super) store: Arc<dyn Store>,
}

impl Kit {
    pub(super) fn new(bed: Arc<dyn TestBed>) -> Self {
        let store = bed.store();
        Self { bed, store }
    }

    /// Registers a route.
    pub(super) async fn register(
        &self,
        route: &str,
        topics: &[&str],
        shards: u16,
    ) -> Result<Layout, StoreError> {
        self.store.register(&spec(route, topics, shards)).await
    }

    /// Registers [`ROUTE`] as one shard.
    pub(super) async fn register_all(&self) -> Result<Layout, StoreError> {
        self.register(ROUTE, &["*"], 1).await
    }

    /// Enqueues in an application's transaction, and commits.
    pub(super) async fn commit(&self, messages: &[Message]) -> Result<(), StoreError> {
        let mut writer = self.bed.begin().await;
        writer.enqueue(messages).await?;
        writer.commit().await;
        Ok(())
    }

    /// Claims a shard for a new relay.
    pub(super) async fn claim(
        &self,
        route: &str,
        shard: Shard,
    ) -> Result<Option<Grant>, StoreError> {
        self.store.acquire(&claim(route, shard)).await
    }

    /// Claims a shard that must be free.
    pub(super) async fn granted(&self, route: &str, shard: Shard) -> Result<Grant, StoreError> {
        let grant = self.claim(route, shard).await?;
        Ok(grant.unwrap_or_else(|| panic!("shard {shard} of {route} is free but was not granted")))
    }

    /// Registers [`ROUTE`] as one shard, and claims it.
    pub(super) async fn serving(&self) -> Result<Grant, StoreError> {
        self.register_all().await?;
        self.granted(ROUTE, Shard::WHOLE).await
    }

    /// Writes down how far the holder is.
    pub(super) async fn settle_at(
        &self,
        lease: &Lease,
        position: &Position,
    ) -> Result<Settled, StoreError> {
        let settlement = Settlement { position: Some(position.clone()), ..Settlement::default() };
        self.store.settle(lease, &settlement).await
    }

    /// Reads everything that is there after a position.
    pub(super) async fn read_from(
        &self,
        route: &str,
        shard: Shard,
        after: &Position,
    ) -> Result<Vec<Fetched>, StoreError> {
        let mut reader = Reader::new(self, route, shard, after.clone());
        reader.read_all().await
    }

    /// Reads everything of [`ROUTE`] from the beginning.
    pub(super) async fn read_log(&self) -> Result<Vec<Fetched>, StoreError> {
        self.read_from(ROUTE, Shard::WHOLE, &Position::default()).await
    }
}

/// A cursor over a shard: fetches page after page, remembering its position.
pub(super) struct Reader {
    store: Arc<dyn Store>,
    /// The next request; its `after` is what has been read.
    pub(super) fetch: Fetch,
}

impl Reader {
    pub(super) fn new(kit: &Kit, route: &str, shard: Shard, after: Position) -> Self {
        Self { store: Arc::clone(&kit.store), fetch: Fetch { after, ..fetch(route, shard) } }
    }

    /// A reader of [`ROUTE`] from the beginning that looks at so many rows at a time.
    pub(super) fn paging(kit: &Kit, rows_max: u32) -> Self {
        let mut reader = Self::new(kit, ROUTE, Shard::WHOLE, Position::default());
        reader.fetch.rows_max = rows_max;
        reader
    }

    pub(super) fn position(&self) -> &Position {
        &self.fetch.after
    }

    /// Reads a page and moves past it, checking what holds of every page.
    pub(super) async fn page(&mut self) -> Result<Batch, StoreError> {
        let batch = self.store.fetch(&self.fetch).await?;
        check_page(&self.fetch, &batch);
        self.fetch.after = self.fetch.after.passed(batch.end, &batch.snapshot);
        Ok(batch)
    }

    /// Reads pages until nothing more is there.
    pub(super) async fn read_all(&mut self) -> Result<Vec<Fetched>, StoreError> {
        let mut all = Vec::new();
        loop {
            let before = self.position().clone();
            let batch = self.page().await?;
            all.extend(batch.messages);
            if !batch.more {
                return Ok(all);
            }
            assert_ne!(
                &before,
                self.position(),
                "a fetch that says there is more must get further"
            );
        }
    }
}

/// What holds of every batch, whatever was asked.
fn check_page(fetch: &Fetch, batch: &Batch) {
    let seqs: Vec<Seq> = batch.messages.iter().map(|message| message.seq).collect();
    assert!(
        seqs.windows(2).all(|pair| pair[0] < pair[1]),
        "messages of a batch ascend in seq: {seqs:?}"
    );
    assert!(
        seqs.len() <= fetch.rows_max as usize,
        "{} messages for {} rows",
        seqs.len(),
        fetch.rows_max
    );
    assert!(
        seqs.last().is_none_or(|last| *last <= batch.end),
        "a batch ends at {} but holds {seqs:?}",
        batch.end
    );
    let bytes: usize = batch.messages.iter().map(|m| m.message.payload.len()).sum();
    assert!(
        bytes <= fetch.bytes_max || seqs.len() == 1,
        "{bytes} bytes in {} messages for {}",
        seqs.len(),
        fetch.bytes_max
    );
    assert!(
        batch.more || fetch.until.is_some() || batch.end >= fetch.after.seq(),
        "nothing is left, yet the batch ends at {} before {}",
        batch.end,
        fetch.after
    );
}

/// A request for everything after the beginning, in one page.
pub(super) fn fetch(route: &str, shard: Shard) -> Fetch {
    Fetch {
        route: route.to_owned(),
        shard,
        after: Position::default(),
        until: None,
        rows_max: 10_000,
        bytes_max: usize::MAX >> 1,
        epoch: None,
        evidence: None,
    }
}

pub(super) fn spec(route: &str, topics: &[&str], shards: u16) -> RouteSpec {
    let topics = topics.iter().map(|pattern| pattern.parse().expect("a valid pattern"));
    RouteSpec { name: route.to_owned(), topics: topics.collect(), shards }
}

pub(super) fn claim(route: &str, shard: Shard) -> Claim {
    Claim { route: route.to_owned(), shard, relay: RelayId::fresh(), ttl: TTL, rewound: None }
}

/// A message of a key, its number as payload.
pub(super) fn keyed(key: &str, number: usize) -> Message {
    Message::from_bytes("orders", Some(key), number.to_string())
}

/// A message without a key, its number as payload.
pub(super) fn keyless(number: usize) -> Message {
    Message::from_bytes("orders", None, number.to_string())
}

/// `count` messages without a key.
pub(super) fn keyless_many(count: usize) -> Vec<Message> {
    (0..count).map(keyless).collect()
}

/// The messages alone.
pub(super) fn messages(fetched: Vec<Fetched>) -> Vec<Message> {
    fetched.into_iter().map(|fetched| fetched.message).collect()
}

/// The payloads as text, in order: what most cases compare.
pub(super) fn texts<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<String> {
    messages
        .into_iter()
        .map(|message| String::from_utf8_lossy(&message.payload).into_owned())
        .collect()
}

/// Asserts that a call failed, and how.
pub(super) fn assert_kind<T>(result: Result<T, StoreError>, kind: StoreErrorKind, what: &str) {
    match result {
        Ok(_) => panic!("{what}: expected {kind:?}, but it was accepted"),
        Err(error) => assert_eq!(error.kind, kind, "{what}: {error:?}"),
    }
}

/// Parks a message at a place in the log; what was learned about it is made by [`refused`] or
/// [`waiting`].
pub(super) fn park(seq: Seq, message: &Message, report: impl FnOnce(Seq) -> Repark) -> Park {
    Park { message: message.clone(), age: Duration::ZERO, report: report(seq) }
}

/// The report of a message that was refused so many times.
pub(super) fn refused(attempts: u32, next: Next) -> impl Fn(Seq) -> Repark {
    move |seq| Repark {
        seq,
        attempts,
        unknowns: 0,
        failure: Some(Failure::new("refused", format!("refusal {attempts} of {seq}"))),
        next,
    }
}

/// The report of a message that only waits behind others of its key.
pub(super) fn waiting(seq: Seq) -> Repark {
    Repark { seq, attempts: 0, unknowns: 0, failure: None, next: Next::Retry(Duration::ZERO) }
}
