//! The display of the demo: a live bar on a terminal, otherwise one line per second.

use std::time::Duration;

use console::style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The counters of one frame.
#[derive(Clone, Copy, Default)]
pub(super) struct Frame {
    /// Orders committed and rolled back.
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
    /// Messages the consumer has recorded.
    pub(super) delivered: u64,
    /// Age of the oldest message that was not sent yet.
    pub(super) lag: Duration,
}

/// See the module documentation.
pub(super) struct Screen {
    bar: ProgressBar,
    is_terminal: bool,
    started: tokio::time::Instant,
    last: Frame,
    last_at: Duration,
    printed_at: Duration,
}

impl Screen {
    /// Starts the display.
    pub(super) fn new() -> Self {
        let is_terminal = console::user_attended_stderr();
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let template =
            ProgressStyle::with_template("  {bar:32.green/dim} {pos}/{len} delivered\n  {msg}");
        bar.set_style(template.expect("a template of ours").progress_chars("━━╌"));
        Self {
            bar,
            is_terminal,
            started: tokio::time::Instant::now(),
            last: Frame::default(),
            last_at: Duration::ZERO,
            printed_at: Duration::ZERO,
        }
    }

    /// Prints an event on its own line.
    pub(super) fn say(&self, text: &str) {
        let line = format!("{:>5.1} s  {text}", self.started.elapsed().as_secs_f64());
        if self.is_terminal {
            self.bar.println(line);
        } else {
            eprintln!("{line}");
        }
    }

    /// Shows the frame, with the rates since the last frame.
    pub(super) fn show(&mut self, frame: Frame) {
        let now = self.started.elapsed();
        let seconds = now.saturating_sub(self.last_at).as_secs_f64().max(0.001);
        #[expect(clippy::cast_precision_loss, reason = "counts of a short demo")]
        let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
        let text = format!(
            "{:>6.0} orders/s in   {:>6.0} messages/s out   backlog {:>6}   lag {:>5.1} s   {} rolled back",
            rate(frame.committed, self.last.committed),
            rate(frame.delivered, self.last.delivered),
            frame.committed.saturating_sub(frame.delivered),
            frame.lag.as_secs_f64(),
            frame.rolled_back,
        );
        self.bar.set_length(frame.committed);
        self.bar.set_position(frame.delivered.min(frame.committed));
        self.bar.set_message(text.clone());
        if !self.is_terminal {
            if now.saturating_sub(self.printed_at) < Duration::from_secs(1) {
                return;
            }
            self.printed_at = now;
            eprintln!("{:>5.1} s  {text}", now.as_secs_f64());
        }
        (self.last, self.last_at) = (frame, now);
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line of the verdict: a mark, the fact, and the count.
pub(super) fn verdict_line(is_good: bool, what: &str, count: &str) -> String {
    let mark = if is_good { style("✓").green() } else { style("✗").red() };
    format!("  {mark} {what:<46}{count:>10}")
}
