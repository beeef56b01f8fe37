//! Applies a broker's outcomes to the window and the gate. No other file turns outcomes into
//! consequences.

use std::{collections::HashMap, time::Duration};

use foldhash::fast::FixedState;
use posthaste_core::{Failure, Next, OnDead, Outcome, RetryPolicy};

use crate::{
    events::Events,
    gate::Gate,
    lane::{ItemId, LaneId},
    outage::Outage,
    planted::{self, Planted},
    window::{Item, Window},
};

/// Unknown outcomes, each while other messages were answered, after which a message becomes a dead
/// letter.
const UNKNOWNS_MAX: u32 = 10;

/// The state needed to apply answers, borrowed from the shard for one call.
pub(crate) struct Judge<'a> {
    pub(crate) window: &'a mut Window,
    pub(crate) gate: &'a mut Gate,
    pub(crate) outage: &'a mut Outage,
    pub(crate) policy: &'a RetryPolicy,
    pub(crate) events: &'a Events,
    pub(crate) random: &'a mut fastrand::Rng,
    pub(crate) now: Duration,
}

/// The result of a call for one lane.
#[derive(Default)]
struct LaneAnswer {
    /// Whether one of its messages was not acknowledged: outcomes of messages behind it do not
    /// count.
    has_failed: bool,
    /// Messages to send again, in order.
    returned: Vec<ItemId>,
}

impl Judge<'_> {
    /// Applies a call's answers, one outcome for each item, in order.
    pub(crate) fn apply(&mut self, items: Vec<ItemId>, outcomes: Vec<Outcome>) {
        // No random seed, because the order of the entries decides which message is sent next.
        let mut lanes: HashMap<LaneId, LaneAnswer, FixedState> = HashMap::default();
        let mut acknowledged = 0;
        let was_closed = self.gate.is_probing();
        for (id, outcome) in items.into_iter().zip(outcomes) {
            let Some(item) = self.window.item(id) else {
                continue;
            };
            let lane = item.lane;
            let answer = lane.map(|lane| lanes.entry(lane).or_default());
            if outcome == Outcome::Acked {
                acknowledged += 1;
                self.events.delivered(item.age(self.now));
                self.window.acknowledged(id);
                continue;
            }
            let is_behind =
                answer.is_some_and(|answer| std::mem::replace(&mut answer.has_failed, true));
            let goes_back = self.not_acknowledged(id, is_behind, outcome);
            match lane {
                _ if !goes_back => {}
                Some(lane) => lanes.entry(lane).or_default().returned.push(id),
                None => self.window.lanes.return_single(id),
            }
        }
        for (lane, answer) in lanes {
            self.reopen(lane, answer.returned);
        }
        self.events.published(acknowledged);
        let is_proven = acknowledged > 0 && self.gate.acknowledged();
        if was_closed && !self.gate.is_probing() {
            self.events.opened();
        }
        if is_proven {
            if let Some((lasted, pauses)) = self.outage.ended(self.now) {
                self.events.resumed(lasted, pauses);
            }
            self.set_suspects_aside();
        }
    }

    fn set_suspects_aside(&mut self) {
        let Self { window, policy, random, events, now, .. } = self;
        window.set_suspects_aside(*now, |unknowns| {
            let next = match (unknowns >= UNKNOWNS_MAX, policy.on_dead) {
                (false, _) => Next::Retry(policy.backoff.delay(unknowns, random)),
                (true, OnDead::Continue) => Next::Dead,
                (true, OnDead::Block) => Next::DeadAndBlock,
            };
            events.suspected(unknowns, next);
            next
        });
    }

    /// Returns whether the item goes back to its lane.
    fn not_acknowledged(&mut self, id: ItemId, is_behind: bool, outcome: Outcome) -> bool {
        match outcome {
            _ if is_behind => self.window.not_sent(id, None),
            Outcome::Acked => false,
            Outcome::Rejected(failure) => self.rejected(id, failure),
            Outcome::Unreachable(failure) if planted::has(Planted::OutageIsAttempt) => {
                self.rejected(id, failure)
            }
            Outcome::Unreachable(failure) => {
                self.down("unreachable", failure);
                self.window.not_sent(id, None)
            }
            Outcome::Unknown(failure) => {
                let goes_back = self.window.not_sent(id, Some(&failure));
                self.down("unknown", failure);
                goes_back
            }
        }
    }

    fn rejected(&mut self, id: ItemId, failure: Failure) -> bool {
        let is_probe = self.gate.awaits_probe();
        if !self.gate.refused() {
            let detail = format!("every message is refused, lately: {failure}");
            self.down("unreachable", Failure::new("refuses-everything", detail));
            if !is_probe {
                return self.window.not_sent(id, None);
            }
            // Parked so that the next message is tried: a run of bad messages, however long, ends
            // with a good message that shows that the broker works.
            let next = Next::Retry(self.policy.backoff.delay(1, self.random));
            self.window.put_off(id, failure, next, self.now);
            return false;
        }
        let Some(item) = self.window.item(id) else {
            return false;
        };
        let (attempts, age) = (item.attempts + 1, item.age(self.now));
        let gives_up = failure.is_hopeless || self.policy.gives_up(attempts, age);
        let next = match (gives_up, self.policy.on_dead) {
            (false, _) => Next::Retry(self.policy.backoff.delay(attempts, self.random)),
            (true, OnDead::Continue) => Next::Dead,
            (true, OnDead::Block) => Next::DeadAndBlock,
        };
        self.events.rejected(&item.delivery, attempts, &failure, next);
        self.window.refused(id, failure, next, self.now);
        false
    }

    /// Opens the lane again. If its key was blocked meanwhile, the returned messages are held back,
    /// and all messages of the key behind them.
    fn reopen(&mut self, lane: LaneId, returned: Vec<ItemId>) {
        let (held, returned): (Vec<_>, Vec<_>) = returned.into_iter().partition(|&id| {
            let key = self.window.item(id).and_then(Item::key);
            key.is_some_and(|key| self.window.is_blocked(key))
        });
        for id in held {
            self.window.hold_back_with_followers(id, self.now);
        }
        self.window.lanes.answered(lane, &returned);
    }

    fn down(&mut self, outcome: &'static str, failure: Failure) {
        self.events.failed(outcome, failure.class);
        if self.gate.down(self.now, failure.clone(), self.random).is_some() {
            self.events.paused(&failure, self.outage.paused(self.now, failure.class));
        }
    }
}
