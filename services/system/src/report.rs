//! The report: one line for each check, and a verdict.

use std::{fmt, io::Write};

/// Lines for people, and whether all of them were good.
pub struct Report<'w> {
    out: &'w mut (dyn Write + Send),
    failures: u32,
}

/// Without what was written: that is on the screen.
impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("failures", &self.failures).finish_non_exhaustive()
    }
}

impl<'w> Report<'w> {
    /// A report that nothing was said in yet.
    pub fn new(out: &'w mut (dyn Write + Send)) -> Self {
        Self { out, failures: 0 }
    }

    /// Says something.
    pub fn say(&mut self, text: &str) {
        // If the output is closed, the exit code still reports the result.
        let _ = writeln!(self.out, "{text}");
        let _ = self.out.flush();
    }

    /// Prints a check, its result, and whether the result is right.
    pub fn check(&mut self, what: &str, seen: impl fmt::Display, is_right: bool) {
        let word = if is_right { "ok  " } else { "FAIL" };
        self.failures += u32::from(!is_right);
        self.say(&format!("  {word}  {what:<44} {seen}"));
    }

    /// Whether all checks passed.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.failures == 0
    }

    /// The last line.
    pub fn verdict(&mut self) {
        let text = match self.failures {
            0 => "it works".to_owned(),
            1 => "it does not work: 1 line above says FAIL".to_owned(),
            n => format!("it does not work: {n} lines above say FAIL"),
        };
        self.say(&format!("\n{text}"));
    }
}
