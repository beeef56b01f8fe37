//! Changing the number of shards: the present ones stop at a common position, then the new ones
//! start there. Nothing is lost, nothing comes twice, keys keep their order.

use std::time::Duration;

use posthaste_core::{
    Layout, Lease, Message, Next, Position, Settlement, Shard, StoreError, StoreErrorKind, bucket,
};
use posthaste_history::History;

use super::{
    Writer,
    case::cases,
    kit::{Kit, ROUTE, Reader, assert_kind, keyed, keyless, park, refused},
};

cases! { "resize";
    Nothing: [
        growing_loses_and_repeats_nothing,
        shrinking_loses_and_repeats_nothing,
        shards_stop_at_one_position,
        every_shard_must_arrive_first,
        old_layout_ends,
        registering_again_does_not_start_over,
        resize_can_be_taken_back,
        target_can_change_on_the_way,
        nothing_to_resize_changes_nothing,
        holder_who_does_not_know_loses_and_repeats_nothing,
        parked_messages_move_along,
    ],
    ConcurrentWriters: [
        transaction_open_across_a_resize_is_not_lost,
        resizes_under_hostile_writers_lose_nothing,
    ],
}

/// A relay that serves every shard, one page at a time, and records what it has settled.
struct Server {
    kit: Kit,
    history: History,
    layout: Layout,
    /// One per shard of the layout; `None` where it holds no lease.
    shards: Vec<Option<Serving>>,
}

/// A shard being served.
struct Serving {
    lease: Lease,
    reader: Reader,
}

/// What serving a page came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// There may be more.
    More,
    /// Everything there is, or may be read before the barrier, is settled.
    End,
    /// The shard is someone else's, or nobody's, by now.
    Lost,
}

impl Server {
    async fn new(kit: &Kit, shards: u16) -> Result<Self, StoreError> {
        let layout = kit.register(ROUTE, &["*"], shards).await?;
        Ok(Self {
            kit: kit.clone(),
            history: History::default(),
            layout,
            shards: (0..layout.shards).map(|_| None).collect(),
        })
    }

    fn shard(&self, index: usize) -> Shard {
        Shard { index: u16::try_from(index).expect("few shards"), of: self.layout.shards }
    }

    async fn commit(&mut self, messages: &[Message]) -> Result<(), StoreError> {
        self.kit.commit(messages).await?;
        self.history.committed(messages);
        Ok(())
    }

    /// Reads and settles a page of a shard, acquiring it first where needed. Only what is settled
    /// counts as received: a relay that is fenced had better not have sent anything twice.
    async fn page(&mut self, index: usize) -> Result<Page, StoreError> {
        let shard = self.shard(index);
        if self.shards[index].is_none() {
            let Some(grant) = self.kit.claim(ROUTE, shard).await? else {
                return Ok(Page::Lost);
            };
            let mut reader = Reader::new(&self.kit, ROUTE, shard, grant.position);
            reader.fetch.until = grant.until;
            reader.fetch.rows_max = 6;
            let lease = grant.lease;
            self.shards[index] = Some(Serving { lease, reader });
        }
        let serving = self.shards[index].as_mut().expect("just acquired");
        let batch = serving.reader.page().await?;
        let position = serving.reader.position();
        match self.kit.settle_at(&serving.lease, position).await {
            Ok(_) => {}
            Err(error) if error.kind == StoreErrorKind::Fenced => {
                self.shards[index] = None;
                return Ok(Page::Lost);
            }
            Err(error) => return Err(error),
        }
        for fetched in &batch.messages {
            self.history.received(fetched.message.id);
        }
        Ok(if batch.more { Page::More } else { Page::End })
    }

    /// Serves a shard to its end, or its barrier.
    async fn drain(&mut self, index: usize) -> Result<(), StoreError> {
        while self.page(index).await? == Page::More {}
        Ok(())
    }

    async fn drain_all(&mut self) -> Result<(), StoreError> {
        for index in 0..self.shards.len() {
            self.drain(index).await?;
        }
        Ok(())
    }

    async fn release(&mut self, index: usize) -> Result<(), StoreError> {
        if let Some(serving) = self.shards[index].take() {
            self.kit.store.release(&serving.lease).await?;
        }
        Ok(())
    }

    /// Asks for another number of shards. Holders do not notice by themselves.
    async fn resize(&mut self, shards: u16) -> Result<(), StoreError> {
        self.layout = self.kit.register(ROUTE, &["*"], shards).await?;
        Ok(())
    }

    /// Brings every shard to the barrier and completes the resize, if there is one.
    async fn complete(&mut self) -> Result<(), StoreError> {
        if self.layout.resizing_to.is_none() {
            return Ok(());
        }
        for _ in 0..5 {
            for index in 0..self.shards.len() {
                self.release(index).await?;
                self.drain(index).await?;
            }
            if self.reshard().await? {
                return Ok(());
            }
        }
        panic!("every shard is at its barrier, yet the route stays {:?}", self.layout)
    }

    /// Completes a resize if the store agrees, and serves the new layout then.
    async fn reshard(&mut self) -> Result<bool, StoreError> {
        let layout = self.kit.store.reshard(ROUTE).await?;
        let is_done = self.layout.resizing_to.is_some() && layout.resizing_to.is_none();
        self.layout = layout;
        if is_done {
            self.shards = (0..layout.shards).map(|_| None).collect();
        }
        Ok(is_done)
    }

    async fn assert_exact(mut self) -> Result<(), StoreError> {
        self.drain_all().await?;
        let report = self.history.check();
        assert!(report.is_exact(), "{report}");
        Ok(())
    }
}

/// `count` messages over ten keys and none.
fn mixed(count: usize) -> Vec<Message> {
    (0..count)
        .map(|number| match number % 11 {
            10 => keyless(number),
            key => keyed(&format!("key-{key}"), number),
        })
        .collect()
}

/// Shards read unevenly far, the size changes, messages keep coming, the size has changed.
async fn across(kit: &Kit, from: u16, to: u16) -> Result<(), StoreError> {
    let mut server = Server::new(kit, from).await?;
    server.commit(&mixed(120)).await?;
    for index in 0..usize::from(from) {
        for _ in 0..=index * 2 {
            server.page(index).await?;
        }
    }
    server.resize(to).await?;
    assert_eq!(server.layout.shards, from);
    assert_eq!(server.layout.resizing_to, Some(to));
    server.commit(&mixed(40)).await?;
    server.complete().await?;
    assert_eq!(server.layout.shards, to);
    server.commit(&mixed(40)).await?;
    server.assert_exact().await
}

async fn growing_loses_and_repeats_nothing(kit: Kit) -> Result<(), StoreError> {
    across(&kit, 2, 5).await
}

async fn shrinking_loses_and_repeats_nothing(kit: Kit) -> Result<(), StoreError> {
    across(&kit, 4, 1).await
}

async fn shards_stop_at_one_position(kit: Kit) -> Result<(), StoreError> {
    let mut server = Server::new(&kit, 3).await?;
    server.commit(&mixed(60)).await?;
    server.page(1).await?;
    server.release(1).await?;
    server.resize(2).await?;
    let mut barriers: Vec<Position> = Vec::new();
    for index in 0..3 {
        let grant = kit.granted(ROUTE, server.shard(index)).await?;
        barriers.push(grant.until.expect("a barrier while resizing"));
        kit.store.release(&grant.lease).await?;
    }
    assert!(barriers.iter().all(|barrier| *barrier == barriers[0]), "{barriers:?}");
    // Whatever comes now lies beyond it.
    let after = mixed(20);
    server.commit(&after).await?;
    for index in 0..3 {
        let shard = server.shard(index);
        let mut reader = Reader::new(&kit, ROUTE, shard, Position::default());
        reader.fetch.until = Some(barriers[0].clone());
        for fetched in reader.read_all().await? {
            let is_after = after.iter().any(|after| after.id == fetched.message.id);
            assert!(!is_after, "{} was committed after the barrier", fetched.seq);
        }
    }
    Ok(())
}

async fn every_shard_must_arrive_first(kit: Kit) -> Result<(), StoreError> {
    let mut server = Server::new(&kit, 3).await?;
    server.commit(&mixed(60)).await?;
    server.resize(2).await?;
    for index in 0..3 {
        assert!(!server.reshard().await?, "done with shard {index} on its way");
        assert_eq!((server.layout.shards, server.layout.resizing_to), (3, Some(2)));
        server.page(index).await?;
        assert!(!server.reshard().await?, "done with shard {index} on its way");
        server.drain(index).await?;
    }
    assert!(server.reshard().await?, "all have arrived");
    server.assert_exact().await
}

async fn old_layout_ends(kit: Kit) -> Result<(), StoreError> {
    let mut server = Server::new(&kit, 2).await?;
    server.commit(&mixed(20)).await?;
    server.resize(3).await?;
    server.drain_all().await?;
    let old: Vec<Lease> = server.shards.iter().flatten().map(|s| s.lease.clone()).collect();
    assert!(server.reshard().await?);
    let refused_shard = kit.claim(ROUTE, Shard { index: 0, of: 2 }).await?;
    assert!(refused_shard.is_none(), "a shard of the old layout was granted");
    for lease in &old {
        let settled = kit.store.settle(lease, &Settlement::default()).await;
        assert_kind(settled, StoreErrorKind::Fenced, "a lease of the old layout");
    }
    for index in 0..3 {
        let lease = kit.granted(ROUTE, server.shard(index)).await?.lease;
        let older = old.iter().filter(|old| old.shard.index == lease.shard.index);
        assert!(older.into_iter().all(|old| old.epoch < lease.epoch));
    }
    Ok(())
}

/// Every relay of a fleet registers, and again whenever it starts.
async fn registering_again_does_not_start_over(kit: Kit) -> Result<(), StoreError> {
    let mut server = Server::new(&kit, 2).await?;
    server.commit(&mixed(30)).await?;
    server.resize(3).await?;
    server.drain(0).await?;
    server.commit(&mixed(30)).await?;
    server.resize(3).await?;
    server.drain(1).await?;
    assert!(server.reshard().await?, "registering moved the goal");
    server.resize(3).await?;
    assert_eq!((server.layout.shards, server.layout.resizing_to), (3, None));
    server.assert_exact().await
}

async fn resize_can_be_taken_back(kit: Kit) -> Result<(), StoreError> {
    let mut server = Server::new(&kit, 2).await?;
    server.commit(&mixed(40)).await?;
    server.resize(4).await?;
    server.drain(0).await?;
    server.release(0).await?;
    server.page(1).await?;
    server.release(1).await?;
    server.resize(2).await?;
    assert_eq!((server.layout.shards, server.layout.resizing_to), (2, None));
    let grant = kit.granted(ROUTE, server.shard(0)).await?;
    assert_eq!(grant.until, None, "a barrier without a resize");
    kit.store.release(&grant.lease).await?;
    server.commit(&mixed(40)).await?;
    server.assert_exact().await
}

async fn target_can_change_on_the_way(kit: Kit) -> Result<(), StoreError> {
    let mut server = Server::new(&kit, 2).await?;
    server.commit(&mixed(40)).await?;
    server.resize(4).await?;
    server.drain(0).await?;
    server.resize(3).await?;
    assert_eq!((server.layout.shards, server.layout.resizing_to), (2, Some(3)));
    server.commit(&mixed(20)).await?;
    server.complete().await?;
    assert_eq!(server.layout.shards, 3);
    server.assert_exact().await
}

async fn nothing_to_resize_changes_nothing(kit: Kit) -> Result<(), StoreError> {
    let lease = kit.serving().await?.lease;
    let layout = kit.store.reshard(ROUTE).await?;
    assert_eq!((layout.shards, layout.resizing_to), (1, None));
    kit.settle_at(&lease, &Position::default()).await?;
    Ok(())
}

/// A holder from before goes on without looking at the layout. Either it is fenced, or what it
/// settles counts.
async fn holder_who_does_not_know_loses_and_repeats_nothing(kit: Kit) -> Result<(), StoreError> {
    let mut server = Server::new(&kit, 2).await?;
    server.commit(&mixed(40)).await?;
    server.page(0).await?;
    server.page(1).await?;
    server.resize(3).await?;
    server.commit(&mixed(40)).await?;
    // Still under the lease from before, past any barrier set at the resize.
    server.drain(0).await?;
    server.release(1).await?;
    server.drain(1).await?;
    server.complete().await?;
    server.assert_exact().await
}

async fn parked_messages_move_along(kit: Kit) -> Result<(), StoreError> {
    let mut server = Server::new(&kit, 2).await?;
    let keys: Vec<String> = (0..12).map(|number| format!("key-{number}")).collect();
    for index in 0..2 {
        let lease = kit.granted(ROUTE, server.shard(index)).await?.lease;
        let own = keys.iter().zip(1..);
        let own = own.filter(|(key, _)| lease.shard.serves(bucket(Some(key), 0)));
        let retry = || refused(1, Next::Retry(Duration::ZERO));
        let settlement = Settlement {
            park: own.map(|(key, seq)| park(seq, &keyed(key, 0), retry())).collect(),
            ..Settlement::default()
        };
        kit.store.settle(&lease, &settlement).await?;
        kit.store.release(&lease).await?;
    }
    server.resize(3).await?;
    server.complete().await?;
    let (mut blocked, mut due) = (Vec::new(), Vec::new());
    for index in 0..3 {
        let grant = kit.granted(ROUTE, server.shard(index)).await?;
        let parked = kit.store.due(&grant.lease, 100, usize::MAX).await?.messages;
        due.extend(parked.into_iter().filter_map(|parked| parked.message.key));
        for key in grant.blocked {
            assert!(grant.lease.shard.serves(bucket(Some(&key), 0)));
            blocked.push(key);
        }
    }
    let mut expected = keys;
    for keys in [&mut expected, &mut blocked, &mut due] {
        keys.sort_unstable();
    }
    assert_eq!((&blocked, &due), (&expected, &expected));
    Ok(())
}

async fn transaction_open_across_a_resize_is_not_lost(kit: Kit) -> Result<(), StoreError> {
    let mut server = Server::new(&kit, 2).await?;
    let open = mixed(30);
    let mut writer = kit.bed.begin().await;
    writer.enqueue(&open[..20]).await?;
    server.commit(&mixed(20)).await?;
    server.drain_all().await?;
    server.resize(3).await?;
    writer.enqueue(&open[20..]).await?;
    server.complete().await?;
    writer.commit().await;
    server.history.committed(&open);
    server.drain_all().await?;
    server.resize(1).await?;
    server.complete().await?;
    server.assert_exact().await
}

/// Everything that can happen, in random order from a seed: transactions that open, commit and roll
/// back, pages of any shard, releases, resizes to any size, taken back or completed.
async fn resizes_under_hostile_writers_lose_nothing(kit: Kit) -> Result<(), StoreError> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut server = Server::new(&kit, 2).await?;
    let mut open: Vec<(Box<dyn Writer>, Vec<Message>)> = Vec::new();
    for step in 0..800 {
        let shard = random.usize(..server.shards.len());
        match random.u8(..20) {
            0..3 => {
                // Keys of their own: writers of a key would have to wait for each other.
                let messages = vec![keyed(&format!("open-{step}"), step), keyless(step)];
                let mut writer = kit.bed.begin().await;
                writer.enqueue(&messages).await?;
                open.push((writer, messages));
            }
            3..6 if !open.is_empty() => {
                let (writer, messages) = open.swap_remove(random.usize(..open.len()));
                if random.u8(..100) < 5 {
                    writer.rollback().await;
                    server.history.rolled_back(&messages);
                } else {
                    writer.commit().await;
                    server.history.committed(&messages);
                }
            }
            3..8 => server.commit(&mixed(random.usize(1..12))).await?,
            8..13 => drop(server.page(shard).await?),
            13..15 => server.drain(shard).await?,
            15..17 => server.release(shard).await?,
            17 => server.resize(random.u16(1..5)).await?,
            18 if random.u8(..3) == 0 => server.complete().await?,
            _ => drop(server.reshard().await?),
        }
    }
    for (writer, messages) in open {
        writer.commit().await;
        server.history.committed(&messages);
    }
    server.complete().await?;
    server.assert_exact().await
}
