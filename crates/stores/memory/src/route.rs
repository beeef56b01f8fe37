//! Routes and their layout.

use std::time::Duration;

use posthaste_core::{Layout, Position, RouteSpec, TopicPattern};

use crate::{
    State,
    lease::ShardState,
    parked::Parking,
    snapshot::{self, View},
};

/// A route as the store knows it.
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) topics: Vec<TopicPattern>,
    /// One per shard of the present layout.
    pub(crate) shards: Vec<ShardState>,
    /// Where the layout is about to change.
    pub(crate) resize: Option<Resize>,
    pub(crate) parked: Parking,
}

/// A change of the layout under way.
pub(crate) struct Resize {
    pub(crate) to: u16,
    /// Where every shard stops. Covers everything any of them has ever passed, so it moves when a
    /// holder that does not know of the resize settles beyond it.
    pub(crate) barrier: Position,
}

impl Route {
    pub(crate) fn takes(&self, topic: &str) -> bool {
        self.topics.iter().any(|pattern| pattern.matches(topic))
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

impl State {
    pub(crate) fn register(&mut self, spec: &RouteSpec) -> Layout {
        let view = self.log.view();
        let seq_last = self.log.seq_last();
        let route = self.routes.entry(spec.name.clone()).or_insert_with(|| Route {
            name: spec.name.clone(),
            topics: Vec::new(),
            shards: vec![ShardState::default(); usize::from(spec.shards.max(1))],
            resize: None,
            parked: Parking::default(),
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
