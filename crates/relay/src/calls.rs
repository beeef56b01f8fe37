//! The store and broker calls of a shard: when each may start, and how. `shard` handles their
//! results.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{Either, ready, select},
};
use posthaste_core::{CallOrder, Delivery, Evidence, Failure, Fetch, Fetched, Next, Outcome};

use crate::{
    Route, Settings,
    lane::ItemId,
    planted::{self, Planted},
    shard::{Context, Event, SKIP_INTERVAL, Server, Work},
    window::Window,
};

/// Most parked messages that are tried again at a time.
const DUE_MESSAGES_MAX: u32 = 64;
/// Concurrent publish calls that share the in-flight budget, so that one is prepared while others
/// are answered.
const CALLS_BESIDE: usize = 8;
/// Unanswered probes with one message after which another message is tried.
const PROBES_ALONE_MAX: u32 = 3;
/// How long after the deadline the relay gives up a call of an adapter that ignores its deadline.
const CALL_GRACE: Duration = Duration::from_secs(1);

impl Server {
    pub(crate) fn may_use_store(&self, now: Duration) -> bool {
        now >= self.store_retry_at
    }

    /// The evidence for the store to check, unless the bug is planted.
    fn evidence(&self, unless: Planted) -> Option<Evidence> {
        let is_left_out = planted::has(unless) || planted::has(Planted::KeepsCursor);
        (!is_left_out).then(|| self.evidence.clone())
    }

    pub(crate) fn start_renew(&mut self, now: Duration) {
        if self.is_renewing || now < self.renew_at || !self.may_use_store(now) {
            return;
        }
        self.is_renewing = true;
        let (context, lease) = (self.context.clone(), self.lease.clone());
        let ttl = context.settings.lease;
        self.calls.push(
            async move {
                let result = context.store.renew(&lease, ttl).await;
                Event::Renewed { result, asked_at: now }
            }
            .boxed(),
        );
    }

    /// Starts a fetch if the window has room. `arriving` is a batch that is about to enter the
    /// window.
    pub(crate) fn start_fetch(&mut self, now: Duration, arriving: &[Fetched]) {
        let Settings { batch, window_messages_max, window_bytes_max, .. } = self.context.settings;
        let weight: usize = arriving.iter().map(|fetched| fetched.message.weight()).sum();
        let room = window_messages_max.saturating_sub(self.window.len() + arriving.len());
        let bytes = window_bytes_max.saturating_sub(self.window.bytes() + weight);
        let wanted =
            usize::try_from(batch).unwrap_or(usize::MAX).min(window_messages_max / 2).max(1);
        let has_room = room >= wanted && bytes >= window_bytes_max / 4;
        let is_over =
            self.drain_until.is_some() || self.is_caught_up && self.stops_when_caught_up();
        if self.is_fetching
            || is_over
            || now < self.poll_at
            || !has_room
            || !self.may_use_store(now)
        {
            return;
        }
        self.is_fetching = true;
        let fetch = Fetch {
            route: self.route.spec.name.clone(),
            shard: self.lease.shard,
            after: self.cursor.clone(),
            until: self.until.clone(),
            rows_max: u32::try_from(wanted).unwrap_or(u32::MAX),
            bytes_max: bytes,
            epoch: Some(self.lease.epoch),
            evidence: self.evidence(Planted::KeepsCursor),
        };
        let context = self.context.clone();
        let mut call = async move {
            let result = context.store.fetch(&fetch).await;
            Event::Fetched { result, took: context.clock.elapsed().saturating_sub(now) }
        }
        .boxed();
        // Polled once here, so that the store starts before this task does other work.
        self.calls.push(match (&mut call).now_or_never() {
            Some(event) => ready(event).boxed(),
            None => call,
        });
    }

    pub(crate) fn start_publish(&mut self, now: Duration) {
        let is_held = self.drain_until.is_some() || self.store_failures > 0 || self.has_unwritten;
        if is_held || now + self.route.publish_timeout > self.valid_until {
            return;
        }
        let capabilities = self.route.broker.capabilities();
        while self.window.lanes.has_ready() {
            let allowance =
                self.gate.allowance(now, self.in_flight).min(capabilities.call_messages_max);
            if allowance == 0 {
                return;
            }
            let items = if self.gate.is_probing() {
                self.take_probe(now).into_iter().collect()
            } else {
                let share = (self.route.in_flight_max / CALLS_BESIDE).max(1);
                let whole_lanes = capabilities.call_order != CallOrder::OnePerKey;
                self.window.lanes.take(share, allowance, whole_lanes)
            };
            if items.is_empty() {
                return;
            }
            self.gate.sent();
            self.publish(items, now);
        }
    }

    /// The message to probe with: the one with the fewest unknown outcomes. If all messages are in
    /// one lane, only the first can be sent; if it stayed unanswered alone several times, it is
    /// parked without spending an attempt, and the next message is tried.
    fn take_probe(&mut self, now: Duration) -> Option<ItemId> {
        loop {
            // The lanes are taken out of the window, because they read items of the window while
            // they choose.
            let mut lanes = std::mem::take(&mut self.window.lanes);
            let unknowns = |id| self.window.item(id).map_or(0, |item| item.unknowns);
            let best = lanes.take_best(unknowns);
            let is_stuck = best.is_some_and(|id| unknowns(id) >= PROBES_ALONE_MAX);
            let is_single = lanes.is_single();
            self.window.lanes = lanes;
            let id = best?;
            if !(is_single && is_stuck && Window::is_from_log(id)) {
                return Some(id);
            }
            let next = Next::Retry(self.route.retry.backoff.delay(1, &mut self.random));
            self.events.suspected(1, next);
            self.window.suspect(id, next, now);
            self.window.lanes.answered(0, &[]);
        }
    }

    fn publish(&mut self, items: Vec<ItemId>, now: Duration) {
        self.in_flight += items.len();
        self.events.sent(self.in_flight);
        let deliveries: Vec<Arc<Delivery>> = items
            .iter()
            .map(|&id| {
                self.window.item(id).expect("an item that was taken is there").delivery.clone()
            })
            .collect();
        if planted::has(Planted::MarkFirst) {
            items.iter().for_each(|&id| self.window.acknowledged(id));
        }
        let (context, route) = (self.context.clone(), self.route.clone());
        self.calls.push(
            async move {
                let outcomes = attempt(&context, &route, &deliveries).await;
                Event::Answered {
                    items,
                    outcomes,
                    took: context.clock.elapsed().saturating_sub(now),
                }
            }
            .boxed(),
        );
    }

    pub(crate) fn start_settle(&mut self, now: Duration) {
        if self.is_settling || !self.may_use_store(now) {
            return;
        }
        let work = self.unwritten.take().or_else(|| {
            let is_full = self.window.len() >= self.context.settings.window_messages_max / 2;
            let is_ending = self.drain_until.is_some() || self.stops_when_caught_up();
            if now < self.settle_at && !is_full && !is_ending {
                return None;
            }
            let even_if_skipped = is_ending || now >= self.settled_at + SKIP_INTERVAL;
            let (settlement, messages) = self.window.settlement(even_if_skipped)?;
            Some(Work { settlement, messages })
        });
        let Some(mut work) = work else { return };
        work.settlement.evidence = self.evidence(Planted::SettlesUnchecked);
        self.is_settling = true;
        let (context, lease) = (self.context.clone(), self.lease.clone());
        self.calls.push(
            async move {
                let result = context.store.settle(&lease, &work.settlement).await;
                Event::Settled { result, work, took: context.clock.elapsed().saturating_sub(now) }
            }
            .boxed(),
        );
    }

    pub(crate) fn start_due(&mut self, now: Duration) {
        // Never at the same time as a settlement: `due` could return messages that the settlement
        // is about to remove.
        let is_busy = self.is_asking_due || self.is_settling || self.unwritten.is_some();
        let is_busy = is_busy || self.window.has_parked();
        let is_closed = self.drain_until.is_some() || self.gate.allowance(now, self.in_flight) == 0;
        if is_busy || is_closed || now < self.due_at || !self.may_use_store(now) {
            return;
        }
        self.is_asking_due = true;
        let bytes_max = self.context.settings.window_bytes_max;
        let (context, lease) = (self.context.clone(), self.lease.clone());
        let changes = self.window.floors.changes();
        let changes = (!self.window.has_parked_ahead()).then_some(changes);
        self.calls.push(
            async move {
                let result = context.store.due(&lease, DUE_MESSAGES_MAX, bytes_max).await;
                Event::Due { result, changes }
            }
            .boxed(),
        );
    }
}

/// One publish call to the broker. Returns exactly one outcome for each message, whatever the
/// adapter does.
async fn attempt(context: &Context, route: &Route, deliveries: &[Arc<Delivery>]) -> Vec<Outcome> {
    let unknown = |detail: &str| Outcome::Unknown(Failure::new("adapter", detail));
    let call =
        AssertUnwindSafe(route.broker.publish(deliveries, route.publish_timeout)).catch_unwind();
    let guard = context.clock.sleep(route.publish_timeout + CALL_GRACE);
    let mut outcomes = match select(call, guard).await {
        Either::Left((Ok(outcomes), _)) => outcomes,
        Either::Left((Err(_), _)) => vec![unknown("the adapter panicked"); deliveries.len()],
        Either::Right(_) => {
            vec![unknown("the adapter did not keep its deadline"); deliveries.len()]
        }
    };
    outcomes.resize(deliveries.len(), unknown("the adapter gave no outcome"));
    outcomes
}
