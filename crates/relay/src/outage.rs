//! Decides which pauses of a shard are logged: the first of an outage, every new kind of failure,
//! and reminders at growing intervals. The relay probes a broker that is down about twice a second,
//! and a line for each probe would hide all other lines. Holds no I/O; time is an argument.

use std::time::Duration;

/// Time from the beginning of an outage to the first reminder; each interval is twice the last.
const REMINDER_FIRST: Duration = Duration::from_secs(30);
/// Longest time between two reminders.
const REMINDER_MAX: Duration = Duration::from_secs(600);

/// The log line of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The outage begins with this pause.
    Begins,
    /// The outage goes on: for how long so far, and with how many pauses.
    GoesOn { lasted: Duration, pauses: u64 },
}

/// The outage of one shard's broker, from the first pause to the next acknowledged message.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// The present outage; `None` while the broker acknowledges messages.
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    began_at: Duration,
    /// Pauses so far, the first included.
    pauses: u64,
    /// When the next reminder is due, and the interval that leads to it.
    remind_at: Duration,
    interval: Duration,
    /// Classes of failures that have been logged. Adapters have a small fixed set of classes.
    classes: Vec<&'static str>,
}

impl Outage {
    /// Counts a pause; returns the line to log, if any.
    pub(crate) fn paused(&mut self, now: Duration, class: &'static str) -> Option<Line> {
        let Some(current) = &mut self.current else {
            self.current = Some(Current {
                began_at: now,
                pauses: 1,
                remind_at: now + REMINDER_FIRST,
                interval: REMINDER_FIRST,
                classes: vec![class],
            });
            return Some(Line::Begins);
        };
        current.pauses += 1;
        let is_new = !current.classes.contains(&class);
        if is_new {
            current.classes.push(class);
        }
        let is_due = now >= current.remind_at;
        if is_due {
            current.interval = (current.interval * 2).min(REMINDER_MAX);
            current.remind_at = now + current.interval;
        }
        let lasted = now.saturating_sub(current.began_at);
        (is_new || is_due).then_some(Line::GoesOn { lasted, pauses: current.pauses })
    }

    /// Ends the outage, if there is one; returns how long it lasted and how many pauses it had.
    pub(crate) fn ended(&mut self, now: Duration) -> Option<(Duration, u64)> {
        let Current { began_at, pauses, .. } = self.current.take()?;
        Some((now.saturating_sub(began_at), pauses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn an_outage_has_a_line_at_its_beginning_and_reminders_at_growing_intervals() {
        let mut outage = Outage::default();
        let half = Duration::from_millis(500);
        let lines: Vec<(Duration, Line)> = (0..2 * 3600 * 2)
            .filter_map(|n| {
                let at = half * n;
                outage.paused(NOW + at, "connection").map(|line| (at, line))
            })
            .collect();
        let seconds: Vec<u64> = lines.iter().map(|(at, _)| at.as_secs()).collect();
        assert_eq!(&seconds[..6], [0, 30, 90, 210, 450, 930]);
        assert_eq!(seconds.len(), 16, "two hours: {seconds:?}");
        assert_eq!(lines[0].1, Line::Begins);
        let lasted = Duration::from_secs(30);
        assert_eq!(lines[1].1, Line::GoesOn { lasted, pauses: 61 });
        assert_eq!(outage.ended(NOW + Duration::from_secs(7200)).map(|end| end.1), Some(14_400));
        assert_eq!(outage.ended(NOW), None);
        assert_eq!(outage.paused(NOW, "connection"), Some(Line::Begins), "another outage");
    }

    #[test]
    fn a_new_kind_of_failure_is_said_once() {
        let mut outage = Outage::default();
        outage.paused(NOW, "connection");
        assert_eq!(
            outage.paused(NOW, "auth"),
            Some(Line::GoesOn { lasted: Duration::ZERO, pauses: 2 })
        );
        assert_eq!(outage.paused(NOW, "connection"), None);
        assert_eq!(outage.paused(NOW, "auth"), None);
    }
}
