//! A process of the simulated system: it runs, stands still or is dead. Whatever it does passes
//! through [`step`](Process::step), so nothing of a paused or dead one reaches the world, wherever its
//! tasks may be; and a crash can be put at any step, that is, at every await.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use posthaste_core::Shard;
use tokio::sync::Notify;

/// See the module documentation.
pub(crate) struct Process {
    /// Differs from all others, also from earlier ones of its name.
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Held for moments, never across an await.
    state: Mutex<State>,
    /// Rung when the mode changes.
    changed: Notify,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Running,
    Paused,
    Dead,
}

struct State {
    mode: Mode,
    steps: u64,
    /// The step at which it dies.
    crash_at: Option<u64>,
    /// Times it was granted each shard of each route.
    grants: HashMap<(usize, Shard), u32>,
    /// Settlements it has begun to write, and the latest of them that was written.
    settlements: HashMap<(usize, Shard), u64>,
    settled: HashMap<(usize, Shard), u64>,
}

impl Process {
    pub(crate) fn new(id: u32, name: String) -> Self {
        let state = State {
            mode: Mode::Running,
            steps: 0,
            crash_at: None,
            grants: HashMap::new(),
            settlements: HashMap::new(),
            settled: HashMap::new(),
        };
        Self { id, name, state: Mutex::new(state), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns while it runs: later if it is paused, never if it is dead.
    pub(crate) async fn step(&self) {
        {
            let mut state = self.state();
            state.steps += 1;
            if state.mode == Mode::Running && state.crash_at.is_some_and(|at| state.steps >= at) {
                state.mode = Mode::Dead;
                self.changed.notify_waiters();
            }
        }
        self.until(Mode::Running).await;
    }

    /// Waits for a mode. Rings that come between the look and the wait are not missed.
    async fn until(&self, mode: Mode) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state().mode == mode {
                return;
            }
            changed.await;
        }
    }

    /// Returns when it is dead.
    pub(crate) async fn died(&self) {
        self.until(Mode::Dead).await;
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state().mode == Mode::Dead
    }

    fn turn(&self, from: Mode, to: Mode) -> bool {
        let mut state = self.state();
        if state.mode != from {
            return false;
        }
        state.mode = to;
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// Stops it where it stands, if it runs.
    pub(crate) fn pause(&self) -> bool {
        self.turn(Mode::Running, Mode::Paused)
    }

    /// Lets it go on, if it was paused.
    pub(crate) fn resume(&self) {
        self.turn(Mode::Paused, Mode::Running);
    }

    /// Kills it, so many steps from now.
    pub(crate) fn crash_in(&self, steps: u64) {
        let mut state = self.state();
        state.crash_at = Some(state.steps + steps);
    }

    /// Kills it at once.
    pub(crate) fn kill(&self) {
        self.state().mode = Mode::Dead;
        self.changed.notify_waiters();
    }

    /// Takes a crash back that has not come.
    pub(crate) fn spare(&self) {
        self.state().crash_at = None;
    }

    /// Numbers a settlement that is about to be written.
    pub(crate) fn settlement(&self, route: usize, shard: Shard) -> u64 {
        let mut state = self.state();
        let number = state.settlements.entry((route, shard)).or_default();
        *number += 1;
        *number
    }

    /// Whether the settlement may be written: no later one has been.
    pub(crate) fn settles(&self, route: usize, shard: Shard, number: u64) -> bool {
        let mut state = self.state();
        let latest = state.settled.entry((route, shard)).or_default();
        let is_latest = number > *latest;
        *latest = number.max(*latest);
        is_latest
    }

    pub(crate) fn granted(&self, route: usize, shard: Shard) {
        *self.state().grants.entry((route, shard)).or_default() += 1;
    }

    /// Which term of the shard it is in.
    pub(crate) fn term(&self, route: usize, shard: Shard) -> u32 {
        self.state().grants.get(&(route, shard)).copied().unwrap_or(0)
    }
}
