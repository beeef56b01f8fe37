//! Faults around a relay, and plans of faults, each drawn from one seed.

use std::{fmt, time::Duration};

use posthaste_fixtures::Moment;
use posthaste_history::Cause;

use crate::Store;

/// Lease of the relays under test.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// Shorter than a lease, and shorter than most deadlines.
const MOMENT_MS_MAX: u64 = 800;

/// Bytes after which a connection is cut in mid-sentence.
const BYTES_MAX: u64 = 20_000;

/// A connection that is broken: between relays and one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The database.
    Store,
    /// The broker.
    Broker,
}

/// What a relay does: the named steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Takes a lease.
    Acquire,
    /// Keeps it.
    Renew,
    /// Reads messages.
    Fetch,
    /// Gives them to the broker.
    Publish,
    /// Settles the acknowledged messages.
    Settle,
    /// Gives the lease back, when told to stop.
    Release,
}

/// Where in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The server has not been asked yet.
    Before,
    /// The server has done it in a transaction that it has not committed.
    Within,
    /// The server has done it, and the relay has not got the answer.
    After,
}

impl Act {
    /// The link it shows on.
    #[must_use]
    pub fn link(self) -> Link {
        if self == Self::Publish { Link::Broker } else { Link::Store }
    }

    /// What is said on that link up to a point, and the side of the last word that is meant. Each
    /// statement begins with its name, and every payload of the shop with `payload`.
    #[must_use]
    pub fn words(self, point: Point) -> (Vec<&'static str>, Moment) {
        let name = match self {
            Self::Publish => {
                let is_after = point == Point::After;
                return (vec!["payload"], if is_after { Moment::After } else { Moment::Before });
            }
            Self::Acquire => "-- acquire:",
            Self::Renew => "-- renew:",
            Self::Fetch => "-- fetch",
            Self::Settle => "-- settle_position:",
            Self::Release => "-- release:",
        };
        match point {
            Point::Before => (vec![name], Moment::Before),
            Point::Within => (vec![name, "COMMIT"], Moment::Before),
            Point::After => (vec![name, "COMMIT"], Moment::After),
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A relay is killed.
    KillRelay,
    /// All relays are killed when one of them is at this point of this step.
    KillAt(Act, Point),
    /// A relay is frozen for longer than its lease.
    FreezeRelay,
    /// A relay is told to stop.
    StopRelay,
    /// The server is killed and started again.
    Kill(Link),
    /// The server is frozen for longer than a lease.
    Freeze(Link),
    /// The broker is stopped in good order and started again.
    StopBroker,
    /// All connections are closed, and new ones, too, for a while.
    Cut(Link),
    /// One connection is closed in the middle of a packet.
    CutInMidSentence(Link),
    /// All traffic is delayed for a while.
    Delay(Link),
    /// Nothing gets through for longer than a lease; connections stay.
    BlackHole(Link),
    /// Requests get through, answers do not, for longer than a lease.
    NoAnswers(Link),
    /// The server's ends of connections are gone, for longer than a lease.
    HalfOpen(Link),
    /// Another program writes to the file, in one transaction, for longer than a lease.
    LockFile,
}

impl Fault {
    /// All faults that are possible with this database.
    #[must_use]
    pub fn all(store: Store) -> Vec<Self> {
        let mut all = vec![Self::KillRelay, Self::FreezeRelay, Self::StopRelay, Self::StopBroker];
        if store == Store::Sqlite {
            all.push(Self::LockFile);
        } else {
            all.extend(Self::of(Link::Store));
        }
        all.extend(Self::of(Link::Broker));
        all.extend(Self::steps(store));
        all
    }

    /// Deaths at every point of every step that can be seen on the way to this database. MariaDB is
    /// told the text of a statement once per connection, and a file is told nothing on the way.
    #[must_use]
    pub fn steps(store: Store) -> Vec<Self> {
        let mut all = vec![
            Self::KillAt(Act::Publish, Point::Before),
            Self::KillAt(Act::Publish, Point::After),
        ];
        if matches!(store, Store::Postgres | Store::Pgbouncer) {
            for act in [Act::Acquire, Act::Renew, Act::Fetch, Act::Settle, Act::Release] {
                all.extend(
                    [Point::Before, Point::Within, Point::After]
                        .map(|point| Self::KillAt(act, point)),
                );
            }
        }
        all
    }

    fn of(link: Link) -> [Self; 8] {
        [
            Self::Kill(link),
            Self::Freeze(link),
            Self::Cut(link),
            Self::CutInMidSentence(link),
            Self::Delay(link),
            Self::BlackHole(link),
            Self::NoAnswers(link),
            Self::HalfOpen(link),
        ]
    }

    /// Why messages may come again after it; nothing if they may not.
    #[must_use]
    pub fn cause(self) -> Option<Cause> {
        match self {
            Self::StopRelay => None,
            Self::KillRelay | Self::KillAt(..) => Some(Cause::Crash),
            Self::FreezeRelay => Some(Cause::TakeOver),
            _ => Some(Cause::UnknownOutcome),
        }
    }
}

/// As records name it: `kill-relay`, `black-hole-store`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, link) = match self {
            Self::KillAt(act, point) => {
                return f.write_str(&format!("kill-{point:?}-{act:?}").to_lowercase());
            }
            Self::KillRelay => ("kill-relay", None),
            Self::FreezeRelay => ("freeze-relay", None),
            Self::StopRelay => ("stop-relay", None),
            Self::StopBroker => ("stop-broker", None),
            Self::LockFile => ("lock-file", None),
            Self::Kill(link) => ("kill", Some(link)),
            Self::Freeze(link) => ("freeze", Some(link)),
            Self::Cut(link) => ("cut", Some(link)),
            Self::CutInMidSentence(link) => ("cut-in-mid-sentence", Some(link)),
            Self::Delay(link) => ("delay", Some(link)),
            Self::BlackHole(link) => ("black-hole", Some(link)),
            Self::NoAnswers(link) => ("no-answers", Some(link)),
            Self::HalfOpen(link) => ("half-open", Some(link)),
        };
        match link {
            None => f.write_str(name),
            Some(Link::Store) => write!(f, "{name}-store"),
            Some(Link::Broker) => write!(f, "{name}-broker"),
        }
    }
}

/// A fault with its numbers.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What goes wrong.
    pub fault: Fault,
    /// How long nothing goes wrong before it.
    pub after: Duration,
    /// How long it lasts, where it lasts.
    pub time: Duration,
    /// Bytes that still get through, where that matters.
    pub bytes: u64,
    /// Which relay, counted from the one that serves.
    pub relay: usize,
}

/// What goes wrong in one run, in order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Shards of the route.
    pub shards: u32,
    /// What goes wrong.
    pub steps: Vec<Step>,
}

impl Plan {
    /// The plan of a seed: every fault once before any comes twice.
    #[must_use]
    pub fn new(store: Store, seed: u64, count: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let shards = if random.bool() { 1 } else { 4 };
        let mut faults = Vec::new();
        while faults.len() < count {
            let mut all = Fault::all(store);
            random.shuffle(&mut all);
            faults.extend(all);
        }
        faults.truncate(count);
        Self::of(shards, faults, &mut random)
    }

    /// These faults, in this order; the seed decides all numbers.
    #[must_use]
    pub fn with(faults: Vec<Fault>, seed: u64) -> Self {
        Self::of(1, faults, &mut fastrand::Rng::with_seed(seed))
    }

    fn of(shards: u32, faults: Vec<Fault>, random: &mut fastrand::Rng) -> Self {
        let steps = faults.into_iter().map(|fault| Self::step(fault, random)).collect();
        Self { shards, steps }
    }

    fn step(fault: Fault, random: &mut fastrand::Rng) -> Step {
        let moment = Duration::from_millis(random.u64(50..MOMENT_MS_MAX));
        let time = match fault {
            Fault::FreezeRelay
            | Fault::Freeze(_)
            | Fault::BlackHole(_)
            | Fault::NoAnswers(_)
            | Fault::HalfOpen(_)
            | Fault::LockFile => LEASE + LEASE / 2 + moment,
            _ => moment,
        };
        Step {
            fault,
            after: Duration::from_millis(random.u64(100..1200)),
            time,
            bytes: random.u64(1..BYTES_MAX),
            relay: if random.u32(..4) == 0 { 1 } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_plan_with_every_fault_before_any_comes_twice() {
        let all = Fault::all(Store::Postgres);
        let plan = |seed| Plan::new(Store::Postgres, seed, all.len());
        assert_eq!(format!("{:?}", plan(7)), format!("{:?}", plan(7)));
        assert_ne!(format!("{:?}", plan(7)), format!("{:?}", plan(8)));
        for fault in &all {
            assert_eq!(plan(7).steps.iter().filter(|step| step.fault == *fault).count(), 1);
        }
    }

    #[test]
    fn a_file_has_no_network() {
        let names: Vec<String> =
            Fault::all(Store::Sqlite).iter().map(ToString::to_string).collect();
        assert!(names.iter().all(|name| !name.ends_with("-store")), "{names:?}");
        assert!(names.contains(&"lock-file".to_owned()));
    }
}
