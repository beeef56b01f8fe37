//! The probes that were sent, the probes that came back, and the verdict.

use std::{
    collections::{HashMap, HashSet},
    io,
    time::Duration,
};

use posthaste_core::{Message, MessageId};
use posthaste_history::History;
use serde::Serialize;
use tokio::time::Instant;

use crate::output::{Terminal, count};

/// The probes so far.
#[derive(Default)]
pub(super) struct Record {
    /// The history checker, which gives the verdict.
    history: History,
    /// When each probe that has not arrived yet was handed to the store.
    waiting: HashMap<MessageId, Instant>,
    /// The probes that arrived.
    arrived: HashSet<MessageId>,
    latencies: Vec<Duration>,
    first_sent: Option<Instant>,
    last_arrived: Option<Instant>,
}

impl Record {
    /// Records committed probes and the time at which they were handed to the store.
    pub(super) fn sent(&mut self, messages: &[Message], at: Instant) {
        self.first_sent.get_or_insert(at);
        self.history.committed(messages);
        self.waiting.extend(messages.iter().map(|message| (message.id, at)));
    }

    /// Records an arrived message; messages that are no probes of this run do not count.
    pub(super) fn arrived(&mut self, id: MessageId, at: Instant) {
        if let Some(sent_at) = self.waiting.remove(&id) {
            self.arrived.insert(id);
            self.last_arrived = Some(at);
            self.latencies.push(at.saturating_duration_since(sent_at));
        }
        if self.arrived.contains(&id) {
            self.history.received(id);
        }
    }

    /// Whether every probe has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The verdict.
    pub(super) fn report(mut self) -> Report {
        self.latencies.sort_unstable();
        let took = match (self.first_sent, self.last_arrived) {
            (Some(first), Some(last)) => last.saturating_duration_since(first),
            _ => Duration::ZERO,
        };
        let at = |share: f64| -> Option<f64> {
            let last = self.latencies.len().checked_sub(1)?;
            let millis = self.latencies[(last as f64 * share).round() as usize].as_secs_f64() * 1e3;
            Some((millis * 1e3).round() / 1e3)
        };
        let found = self.history.check();
        Report {
            is_sound: found.is_sound(),
            sent: found.committed,
            received: found.received,
            lost: found.lost.len(),
            duplicated: found.duplicated.len(),
            reordered: found.reordered.len(),
            seconds: took.as_secs_f64(),
            latency_ms: Latency { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) },
        }
    }
}

/// The result of `verify`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Whether every promise was kept. A repeated message breaks none.
    #[serde(skip)]
    is_sound: bool,
    sent: usize,
    received: usize,
    lost: usize,
    duplicated: usize,
    reordered: usize,
    /// From the first enqueue to the last arrival.
    seconds: f64,
    latency_ms: Latency,
}

/// From enqueue to arrival.
#[derive(Debug, Serialize)]
struct Latency {
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Report {
    /// Whether every promise was kept.
    pub(super) fn is_sound(&self) -> bool {
        self.is_sound
    }

    /// Prints the report for people.
    pub(super) fn print(
        &self,
        route: &str,
        topic: &str,
        terminal: &mut Terminal<'_>,
    ) -> io::Result<()> {
        let out = &mut terminal.out;
        let probes = count(self.sent as u64, "probe");
        writeln!(out, "route {route}: {probes} to topic {topic} in {:.1} s", self.seconds)?;
        let lines = [
            ("received", self.received, ""),
            ("lost", self.lost, "committed, but not read back in time"),
            ("duplicated", self.duplicated, "allowed: they carry the same id"),
            ("reordered", self.reordered, "arrived after a later probe of their key"),
        ];
        for (name, number, words) in lines {
            let words = if number > 0 { words } else { "" };
            writeln!(out, "{}", format!("  {name:<10} {number:>8}  {words}").trim_end())?;
        }
        let Latency { p50, p90, p99, max } = &self.latency_ms;
        if let (Some(p50), Some(p90), Some(p99), Some(max)) = (p50, p90, p99, max) {
            writeln!(
                out,
                "  latency    p50 {p50:.1} ms, p90 {p90:.1} ms, p99 {p99:.1} ms, max {max:.1} ms"
            )?;
        }
        let verdict = if self.is_sound { "every promise was kept" } else { "a promise was BROKEN" };
        writeln!(out, "{verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_counts_what_happened() {
        let mut record = Record::default();
        let messages: Vec<Message> = ["a", "a", "b", "a"]
            .iter()
            .map(|key| Message::from_bytes("t", Some(key), ""))
            .collect();
        let start = Instant::now();
        record.sent(&messages, start);
        for (index, millis) in [(1, 10), (0, 20), (1, 30), (2, 40)] {
            record.arrived(messages[index].id, start + Duration::from_millis(millis));
        }
        record.arrived(MessageId::fresh(), start);
        assert!(!record.is_complete());
        let report = record.report();
        assert_eq!((report.lost, report.duplicated, report.reordered), (1, 1, 1));
        assert_eq!((report.latency_ms.p50, report.latency_ms.max), (Some(20.0), Some(40.0)));
        assert!(!report.is_sound());
    }
}
