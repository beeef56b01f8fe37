//! The picture for people and monitors.

use std::{collections::BTreeMap, time::Duration};

use posthaste_core::{
    ParkState, RelayStatus, RouteStatus, Seq, Shard, Status, UnroutedTopic, bucket,
};

use crate::{State, log::Row, route::Route, snapshot::Coverage};

/// How many of the newest, or of the oldest pending, messages are looked at.
const LOOKED_AT_MAX: usize = 10_000;

impl State {
    pub(crate) fn status(&self, now: Duration) -> Status {
        let relays = self.relays.values().filter(|relay| relay.expires_at > now);
        let relays = relays.map(|relay| RelayStatus {
            id: relay.beat.id.to_string(),
            name: relay.beat.name.clone(),
            version: relay.beat.version.clone(),
            seen_seconds_ago: now.saturating_sub(relay.seen_at).as_secs_f64(),
        });
        let mut status = Status {
            routes: self.routes.values().map(|route| self.route_status(route, now)).collect(),
            relays: relays.collect(),
            unrouted: self.unrouted(),
            rewinds: self.rewinds.iter().rev().map(|rewind| rewind.status(now)).collect(),
        };
        for (id, relay) in self.relays.iter().filter(|(_, relay)| relay.expires_at > now) {
            let seen_ago = now.saturating_sub(relay.seen_at).as_secs_f64();
            status.add_pauses(id, &relay.beat.paused, seen_ago);
        }
        status
    }

    fn route_status(&self, route: &Route, now: Duration) -> RouteStatus {
        let leases = route.shards.iter().enumerate();
        let leases: Vec<_> = leases.map(|(index, shard)| shard.status(index, now)).collect();
        let behind = leases.iter().map(|lease| lease.seq).min().unwrap_or(0);
        let pending = self.log.seq_last().saturating_sub(behind);
        RouteStatus {
            name: route.name.clone(),
            registered: true,
            topics: route.topics.iter().map(ToString::to_string).collect(),
            leases,
            pending: u64::try_from(pending).unwrap_or(0),
            oldest_pending_age_seconds: self.oldest_age(route, now).as_secs_f64(),
            retrying: route.parked.count(ParkState::Retrying),
            oldest_retrying_age_seconds: route.parked.oldest_retrying(now).as_secs_f64(),
            dead: route.parked.count(ParkState::Dead),
            paused: None,
        }
    }

    fn oldest_age(&self, route: &Route, now: Duration) -> Duration {
        let of = route.layout().shards;
        let shards = (0..of).zip(&route.shards);
        let oldest = shards.filter_map(|(index, state)| {
            let shard = Shard { index, of };
            let passed = Coverage::of(&state.position()).ok()?;
            let is_own = |(seq, row): &(Seq, &Row)| {
                let key = row.message.key.as_deref();
                route.takes(&row.message.topic) && shard.serves(bucket(key, *seq))
            };
            let rows = self.log.uncovered(&passed, None, LOOKED_AT_MAX);
            let own = rows.into_iter().filter(is_own);
            own.map(|(_, row)| now.saturating_sub(row.created_at)).max()
        });
        oldest.max().unwrap_or_default()
    }

    fn unrouted(&self) -> Vec<UnroutedTopic> {
        let mut topics: BTreeMap<&str, u64> = BTreeMap::new();
        for message in self.log.committed().rev().take(LOOKED_AT_MAX) {
            if !self.routes.values().any(|route| route.takes(&message.topic)) {
                *topics.entry(&message.topic).or_default() += 1;
            }
        }
        let topics = topics
            .into_iter()
            .map(|(topic, messages)| UnroutedTopic { topic: topic.to_owned(), messages });
        topics.collect()
    }
}
