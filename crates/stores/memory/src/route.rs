//! Routes and their layout.

use std::time::Duration;

use posthaste_core::{
    Layout, Next, Park, Position, Repark, RouteSpec, Seq, Settlement, TopicPattern, bucket,
};
use uuid::Uuid;

use crate::{
    State,
    lease::{Progress, ShardState},
    log::Row,
    parked::Parking,
    snapshot::{self, Coverage, View},
};

/// A route as the store knows it.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) topics: Vec<TopicPattern>,
    /// One per shard of the present layout.
    pub(crate) shards: Vec<ShardState>,
    /// Where the layout is about to change.
    pub(crate) resize: Option<Resize>,
    pub(crate) parked: Parking,
    /// Names what the route reads; another with other topics.
    pub(crate) log: Uuid,
}

/// A change of the layout under way.
#[derive(Clone)]
pub(crate) struct Resize {
    pub(crate) to: u16,
    /// Where every shard stops. Covers everything any of them has ever passed, so it moves when a
    /// holder that does not know of the resize settles beyond it.
    pub(crate) barrier: Position,
}

impl Route {
    pub(crate) fn takes(&self, topic: &str) -> bool {
        matches(&self.topics, topic)
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout {
            shards: u16::try_from(self.shards.len()).expect("at most 256 shards"),
            resizing_to: self.resize.as_ref().map(|resize| resize.to),
        }
    }

    /// Completes the resize if every shard stands at the barrier.
    pub(crate) fn reshard(&mut self, now: Duration) -> Layout {
        let arrived = |resize: &Resize| {
            let mut shards = self.shards.iter();
            shards.all(|shard| shard.position() == resize.barrier)
        };
        if self.resize.as_ref().is_some_and(arrived)
            && let Some(resize) = self.resize.take()
        {
            // Above every epoch there was, so that no lease of the old layout fits the new one.
            let epoch = self.shards.iter().map(|shard| shard.epoch).max();
            let epoch = epoch.unwrap_or_default() + 1;
            let start = ShardState::starting(epoch, &resize.barrier, now);
            self.shards = vec![start; usize::from(resize.to)];
        }
        self.layout()
    }

    /// Moves the barrier where a shard has passed more than it covers.
    pub(crate) fn keep_barrier_ahead(&mut self, is_within: bool, seq: i64, view: &View) {
        if let Some(resize) = &mut self.resize
            && !is_within
        {
            let seq = seq.max(resize.barrier.seq());
            resize.barrier = Position::at(seq, snapshot::name(view));
        }
    }
}

fn matches(topics: &[TopicPattern], topic: &str) -> bool {
    topics.iter().any(|pattern| pattern.matches(topic))
}

impl State {
    /// Where a known route is to have other topics: ends its leases, whose holders may have read on
    /// by the old ones, and parks what no route took until now and this one has passed.
    fn change_topics(&mut self, spec: &RouteSpec, now: Duration) {
        let waiting = match self.routes.get(&spec.name) {
            Some(route) if route.topics != spec.topics => self.waiting(route, spec, now),
            _ => return,
        };
        if let Some(route) = self.routes.get_mut(&spec.name) {
            route.shards.iter_mut().for_each(ShardState::fence);
            route.log = Uuid::new_v4();
            let settlement = Settlement { park: waiting, ..Settlement::default() };
            route.parked.settle(&settlement, &self.log, false, now);
        }
    }

    fn waiting(&self, route: &Route, spec: &RouteSpec, now: Duration) -> Vec<Park> {
        let last = |shard: &ShardState| shard.progress.last().map(Progress::coverage);
        let passed: Vec<Coverage> =
            route.shards.iter().map(|shard| last(shard).unwrap_or_default()).collect();
        let is_waiting = |(seq, row): &(Seq, &Row)| {
            let topic = &row.message.topic;
            let shard = bucket(row.message.key.as_deref(), *seq) as usize % passed.len();
            matches(&spec.topics, topic)
                && !self.routes.values().any(|route| route.takes(topic))
                && passed[shard].covers(*seq, row.xid)
        };
        let park = |(seq, row): (Seq, &Row)| Park {
            message: row.message.clone(),
            age: now.saturating_sub(row.created_at),
            report: Repark {
                seq,
                attempts: 0,
                unknowns: 0,
                failure: None,
                next: Next::Retry(Duration::ZERO),
            },
        };
        self.log.visible(0, Seq::MAX).filter(is_waiting).map(park).collect()
    }

    pub(crate) fn register(&mut self, spec: &RouteSpec, now: Duration) -> Layout {
        self.change_topics(spec, now);
        let view = self.log.view();
        let seq_last = self.log.seq_last();
        let route = self.routes.entry(spec.name.clone()).or_insert_with(|| Route {
            name: spec.name.clone(),
            topics: Vec::new(),
            shards: vec![ShardState::default(); usize::from(spec.shards.max(1))],
            resize: None,
            parked: Parking::default(),
            log: Uuid::new_v4(),
        });
        route.topics.clone_from(&spec.topics);
        let present = route.shards.len();
        if usize::from(spec.shards) == present {
            route.resize = None;
        } else if let Some(resize) = &mut route.resize {
            resize.to = spec.shards;
        } else {
            let passed = route.shards.iter().map(|shard| shard.position().seq()).max();
            let seq = seq_last.max(passed.unwrap_or_default());
            route.resize =
                Some(Resize { to: spec.shards, barrier: Position::at(seq, snapshot::name(&view)) });
        }
        route.layout()
    }
}
