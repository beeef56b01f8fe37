//! Messages put aside.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use posthaste_core::{
    Due, FLOOR_MISSING_MAX, Failure, Message, MessageId, Next, Park, ParkState, Parked,
    ParkedFilter, ParkedView, Repark, Seq, Settlement, Shard, bucket,
};

use crate::{State, lease::ShardState, log::Log};

/// A route's parked messages.
#[derive(Clone, Default)]
pub(crate) struct Parking {
    rows: BTreeMap<Seq, Row>,
    /// What holds others back: everything retrying, and dead letters that block. Per key in seq
    /// order, the first one being the head.
    lanes: BTreeMap<Lane, BTreeSet<Seq>>,
}

/// What waits for each other: the messages of a key, or one message without.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Key(String),
    Alone(Seq),
}

impl Parking {
    /// Every message here, whatever its state.
    pub(crate) fn ids(&self) -> impl Iterator<Item = MessageId> {
        self.rows.values().map(|row| row.message.id)
    }
}

impl Lane {
    fn is_served_by(&self, shard: Shard) -> bool {
        shard.serves(match self {
            Self::Key(key) => bucket(Some(key), 0),
            Self::Alone(seq) => bucket(None, *seq),
        })
    }
}

/// One parked message.
#[derive(Clone)]
struct Row {
    message: Message,
    enqueued_at: SystemTime,
    /// Its age when it was parked.
    age: Duration,
    parked_at: Duration,
    state: ParkState,
    state_at: Duration,
    /// A dead letter that holds its key.
    is_blocking: bool,
    /// When it may be tried again, once it is the first of its key.
    due_at: Duration,
    attempts: u32,
    unknowns: u32,
    redriven: u32,
    first_error: Option<(String, String)>,
    last_error: Option<(String, String)>,
    acted: Option<(String, String)>,
}

impl Row {
    fn new(park: &Park, enqueued_at: SystemTime, now: Duration) -> Self {
        let mut row = Self {
            message: park.message.clone(),
            enqueued_at,
            age: park.age,
            parked_at: now,
            state: ParkState::Retrying,
            state_at: now,
            is_blocking: false,
            due_at: now,
            attempts: 0,
            unknowns: 0,
            redriven: 0,
            first_error: None,
            last_error: None,
            acted: None,
        };
        row.learn(&park.report, now);
        row
    }

    fn learn(&mut self, report: &Repark, now: Duration) {
        self.attempts = report.attempts;
        self.unknowns = report.unknowns;
        if let Some(failure) = &report.failure {
            // Shortened again here: its fields are public.
            let failure = Failure::new(failure.class, failure.detail.as_str());
            let error = (failure.class.to_owned(), failure.detail);
            self.first_error.get_or_insert_with(|| error.clone());
            self.last_error = Some(error);
        }
        let (state, is_blocking, delay) = match report.next {
            Next::Retry(delay) => (ParkState::Retrying, false, delay),
            Next::Dead => (ParkState::Dead, false, Duration::ZERO),
            Next::DeadAndBlock => (ParkState::Dead, true, Duration::ZERO),
        };
        self.turn(state, now);
        self.is_blocking = is_blocking;
        self.due_at = now.saturating_add(delay);
    }

    fn turn(&mut self, state: ParkState, now: Duration) {
        if self.state != state {
            self.state = state;
            self.state_at = now;
        }
    }

    fn holds(&self) -> bool {
        self.state == ParkState::Retrying || self.is_blocking
    }

    fn lane(&self, seq: Seq) -> Lane {
        let key = self.message.key.clone();
        key.map_or(Lane::Alone(seq), Lane::Key)
    }

    fn age(&self, now: Duration) -> Duration {
        self.age + now.saturating_sub(self.parked_at)
    }
}

impl Parking {
    /// Writes a settlement's part, of which nothing is parked again if it is repeated; returns the keys
    /// it touched that nothing holds any more. The log knows when messages were enqueued.
    pub(crate) fn settle(
        &mut self,
        settlement: &Settlement,
        log: &Log,
        is_repeated: bool,
        now: Duration,
    ) -> Vec<String> {
        let mut touched = BTreeSet::new();
        for park in &settlement.park {
            let seq = park.report.seq;
            let enqueued_at = log.enqueued_at(seq).unwrap_or_else(|| instant(now, park.age));
            let row = Row::new(park, enqueued_at, now);
            touched.insert(row.lane(seq));
            if !is_repeated {
                self.rows.entry(seq).or_insert(row);
                self.file(seq);
            }
        }
        for report in &settlement.repark {
            let Some(row) = self.rows.get_mut(&report.seq) else {
                continue;
            };
            // A dead letter is a person's to decide about, and what was decided stands.
            if row.state == ParkState::Retrying {
                row.learn(report, now);
                touched.insert(row.lane(report.seq));
                self.file(report.seq);
            }
        }
        for seq in &settlement.delivered {
            if let Some(row) = self.rows.remove(seq) {
                let lane = row.lane(*seq);
                self.leave(&lane, *seq);
                touched.insert(lane);
            }
        }
        let freed = touched.into_iter().filter(|lane| !self.lanes.contains_key(lane));
        let keys = freed.filter_map(|lane| match lane {
            Lane::Key(key) => Some(key),
            Lane::Alone(_) => None,
        });
        keys.collect()
    }

    /// Puts a row where its state belongs.
    fn file(&mut self, seq: Seq) {
        let row = &self.rows[&seq];
        let lane = row.lane(seq);
        if row.holds() {
            self.lanes.entry(lane).or_default().insert(seq);
        } else {
            self.leave(&lane, seq);
        }
    }

    fn leave(&mut self, lane: &Lane, seq: Seq) {
        if let Some(seqs) = self.lanes.get_mut(lane) {
            seqs.remove(&seq);
            if seqs.is_empty() {
                self.lanes.remove(lane);
            }
        }
    }

    /// Keys of the shard that something holds.
    pub(crate) fn blocked(&self, shard: Shard) -> Vec<String> {
        let lanes = self.lanes.keys().filter(|lane| lane.is_served_by(shard));
        let keys = lanes.filter_map(|lane| match lane {
            Lane::Key(key) => Some(key.clone()),
            Lane::Alone(_) => None,
        });
        keys.collect()
    }

    pub(crate) fn due(&self, shard: Shard, limit: usize, bytes_max: usize, now: Duration) -> Due {
        let lanes = self.lanes.iter().filter(|(lane, _)| lane.is_served_by(shard));
        let mut planned: Vec<(Duration, &BTreeSet<Seq>)> = lanes
            .filter_map(|(_, seqs)| {
                let head = &self.rows[seqs.first()?];
                (head.state == ParkState::Retrying).then_some((head.due_at, seqs))
            })
            .collect();
        planned.sort_unstable_by_key(|(due_at, seqs)| (*due_at, seqs.first().copied()));
        let later = planned.partition_point(|(due_at, _)| *due_at <= now);
        let next = planned.get(later).map(|(due_at, _)| *due_at - now);
        let due = planned[..later].iter().flat_map(|(_, seqs)| {
            let seqs = seqs.iter().map(|seq| (*seq, &self.rows[seq]));
            // A dead letter that blocks also stops what stands between it and its head.
            seqs.take_while(|(_, row)| row.state == ParkState::Retrying)
        });
        let mut bytes = 0;
        let fits = |(index, (_, row)): &(usize, (Seq, &Row))| {
            bytes += row.message.payload.len();
            *index == 0 || bytes <= bytes_max
        };
        let due = due.take(limit).enumerate().take_while(fits);
        Due {
            messages: due.map(|(_, (seq, row))| parked(seq, row, now)).collect(),
            next_in: next,
            undelivered: self.undelivered(shard),
        }
    }

    /// Seqs of the shard that may still come, as many as a grant tells.
    pub(crate) fn undelivered(&self, shard: Shard) -> Vec<Seq> {
        let rows = self.rows.iter().filter(|(seq, row)| {
            row.state != ParkState::Discarded
                && shard.serves(bucket(row.message.key.as_deref(), **seq))
        });
        rows.map(|(seq, _)| *seq).take(FLOOR_MISSING_MAX + 1).collect()
    }

    /// How many are in a state.
    pub(crate) fn count(&self, state: ParkState) -> u64 {
        self.rows.values().filter(|row| row.state == state).count() as u64
    }

    /// Forgets what was discarded so long ago; returns how many.
    pub(crate) fn forget_discarded(&mut self, before: Duration) -> u64 {
        let count = self.rows.len();
        self.rows.retain(|_, row| row.state != ParkState::Discarded || row.state_at > before);
        (count - self.rows.len()) as u64
    }

    /// How long the oldest retrying message has been retrying.
    pub(crate) fn oldest_retrying(&self, now: Duration) -> Duration {
        let rows = self.rows.values().filter(|row| row.state == ParkState::Retrying);
        rows.map(|row| now.saturating_sub(row.state_at)).max().unwrap_or_default()
    }

    /// Dead letters, or retrying messages, that match, in their order.
    fn matching(&self, route: &str, filter: &ParkedFilter) -> Vec<Seq> {
        let is_of_route = filter.route.as_ref().is_none_or(|wanted| wanted == route);
        let rows = self.rows.iter().filter(|(_, row)| {
            is_of_route && row.state == wanted_state(filter) && is_meant(row, filter)
        });
        rows.map(|(seq, _)| *seq).collect()
    }
}

fn wanted_state(filter: &ParkedFilter) -> ParkState {
    if filter.is_retrying { ParkState::Retrying } else { ParkState::Dead }
}

/// Whether the filter, its route and its state aside, means this one.
fn is_meant(row: &Row, filter: &ParkedFilter) -> bool {
    let class = row.last_error.as_ref().map(|(class, _)| class);
    (filter.ids.is_empty() || filter.ids.contains(&row.message.id))
        && filter.topic.as_ref().is_none_or(|topic| *topic == row.message.topic)
        && filter.class.as_ref().is_none_or(|wanted| Some(wanted) == class)
}

impl State {
    pub(crate) fn dead(
        &self,
        filter: &ParkedFilter,
        limit: usize,
        now: Duration,
    ) -> Vec<ParkedView> {
        let mut found = Vec::new();
        for (name, route) in &self.routes {
            if filter.route.as_ref().is_some_and(|wanted| wanted != name) {
                continue;
            }
            let rows = route.parked.rows.iter().filter(|(_, row)| match row.state {
                ParkState::Discarded if !filter.is_retrying => {
                    !filter.ids.is_empty() && is_meant(row, filter)
                }
                state => state == wanted_state(filter) && is_meant(row, filter),
            });
            found.extend(rows.map(|(seq, row)| (row.state_at, name, *seq, row)));
        }
        found.sort_unstable_by_key(|(at, name, seq, _)| (*at, *name, *seq));
        let found = found.into_iter().take(limit);
        found.map(|(_, name, seq, row)| view(name, seq, row, now)).collect()
    }

    pub(crate) fn redrive(&mut self, filter: &ParkedFilter, by: &str, now: Duration) -> u64 {
        if filter.is_retrying {
            return 0;
        }
        self.change(filter, |row| {
            row.turn(ParkState::Retrying, now);
            row.is_blocking = false;
            row.due_at = now;
            row.attempts = 0;
            row.unknowns = 0;
            row.redriven += 1;
            row.acted = Some((by.to_owned(), "redriven".to_owned()));
        })
    }

    pub(crate) fn discard(
        &mut self,
        filter: &ParkedFilter,
        by: &str,
        why: &str,
        now: Duration,
    ) -> u64 {
        self.change(filter, |row| {
            row.turn(ParkState::Discarded, now);
            row.is_blocking = false;
            row.acted = Some((by.to_owned(), why.to_owned()));
        })
    }

    /// Changes every message that matches; returns how many. Nobody may be trying what was retrying, so
    /// the holders of its route are fenced.
    fn change(&mut self, filter: &ParkedFilter, change: impl Fn(&mut Row)) -> u64 {
        let mut count = 0;
        for (name, route) in &mut self.routes {
            let matching = route.parked.matching(name, filter);
            if filter.is_retrying && !matching.is_empty() {
                route.shards.iter_mut().for_each(ShardState::fence);
            }
            for seq in matching {
                if let Some(row) = route.parked.rows.get_mut(&seq) {
                    change(row);
                    count += 1;
                }
                route.parked.file(seq);
            }
        }
        count
    }
}

fn parked(seq: Seq, row: &Row, now: Duration) -> Parked {
    Parked {
        seq,
        message: row.message.clone(),
        attempts: row.attempts,
        unknowns: row.unknowns,
        redriven: row.redriven,
        enqueued_at: row.enqueued_at,
        age: row.age(now),
    }
}

fn view(route: &str, seq: Seq, row: &Row, now: Duration) -> ParkedView {
    let is_planned = row.state == ParkState::Retrying;
    ParkedView {
        route: route.to_owned(),
        seq,
        message: row.message.clone(),
        state: row.state,
        attempts: row.attempts,
        unknowns: row.unknowns,
        redriven: row.redriven,
        first_error: row.first_error.clone(),
        last_error: row.last_error.clone(),
        created_at: date(row.enqueued_at),
        parked_at: date(instant(row.parked_at, Duration::ZERO)),
        state_at: date(instant(row.state_at, Duration::ZERO)),
        next_attempt_in: is_planned.then(|| row.due_at.saturating_sub(now)),
        acted: row.acted.clone(),
    }
}

/// A time of the store's clock, less some: the clock starts with the year 2000.
pub(crate) fn instant(at: Duration, less: Duration) -> SystemTime {
    const START: Duration = Duration::from_secs(946_684_800);
    UNIX_EPOCH + (START + at).saturating_sub(less)
}

fn date(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}
