//! The report of the history checker: counts, violations, and the broken promises.

use std::{collections::BTreeMap, fmt};

use posthaste_core::MessageId;

use crate::Cause;

/// The result of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages that were committed.
    pub committed: usize,
    /// Different messages that arrived, among those sent.
    pub received: usize,
    /// Committed messages that neither arrived nor were set aside, in the order they were sent.
    pub lost: Vec<MessageId>,
    /// Messages that arrived although they were rolled back or never sent; one entry per arrival.
    pub phantom: Vec<MessageId>,
    /// Messages that arrived again; one entry per repetition.
    pub duplicated: Vec<MessageId>,
    /// Numbers of repetitions with a recorded cause, by cause.
    pub causes: BTreeMap<Cause, usize>,
    /// Repetitions without a recorded cause.
    pub unexplained: Vec<MessageId>,
    /// First arrivals behind a later message of their key.
    pub reordered: Vec<Reordered>,
    /// Messages that were tried after a person had discarded them; one entry per attempt.
    pub after_discard: Vec<MessageId>,
    /// Dead letters that claim more refusals than were recorded.
    pub overcounted: Vec<MessageId>,
    /// Different messages that took effect, summed over consumers.
    pub effects: usize,
    /// Messages that arrived but did not take effect.
    pub effects_missing: Vec<Effect>,
    /// Messages that took effect more than once.
    pub effects_repeated: Vec<Effect>,
    /// Messages that took effect although they never arrived.
    pub effects_unasked: Vec<Effect>,
    /// Whether every repetition should have a cause.
    pub(crate) explains: bool,
}

/// Two messages of a key that first arrived in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordered {
    /// Their key.
    pub key: String,
    /// Committed first, arrived second.
    pub earlier: MessageId,
    /// Committed second, arrived first.
    pub later: MessageId,
}

/// The effect of a message at a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The consumer.
    pub consumer: String,
    /// The message.
    pub id: MessageId,
}

/// A promise that was broken. The numbers are those of the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// P1: a message was sent that was never committed.
    Phantom,
    /// P2: a committed message was lost.
    Lost,
    /// P2: a message was tried after a person had discarded it.
    AfterDiscard,
    /// P3: a key's messages came out of order.
    Reordered,
    /// P4: a message came twice without a cause.
    Unexplained,
    /// P5: an effect did not take place.
    EffectMissing,
    /// P5: an effect took place twice, or without its message.
    EffectRepeated,
    /// P6: an outcome that was no refusal was counted as a refusal.
    Overcounted,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Phantom => "P1 phantom",
            Self::Lost => "P2 lost",
            Self::AfterDiscard => "P2 tried after discard",
            Self::Reordered => "P3 reordered",
            Self::Unexplained => "P4 unexplained duplicate",
            Self::EffectMissing => "P5 effect missing",
            Self::EffectRepeated => "P5 effect repeated",
            Self::Overcounted => "P6 refusals overcounted",
        })
    }
}

impl Report {
    /// Whether no message was lost, none arrived that was never committed, and order was kept: this
    /// must always hold.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.lost.is_empty() && self.phantom.is_empty() && self.reordered.is_empty()
    }

    /// Whether the history is sound and no message came twice: this must hold if nothing crashes.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_sound() && self.duplicated.is_empty()
    }

    /// Every broken promise, as far as the records show; empty if all hold.
    #[must_use]
    pub fn breaches(&self) -> Vec<Breach> {
        let is_repeated = !self.effects_repeated.is_empty() || !self.effects_unasked.is_empty();
        let all = [
            (Breach::Phantom, !self.phantom.is_empty()),
            (Breach::Lost, !self.lost.is_empty()),
            (Breach::AfterDiscard, !self.after_discard.is_empty()),
            (Breach::Reordered, !self.reordered.is_empty()),
            (Breach::Unexplained, self.explains && !self.unexplained.is_empty()),
            (Breach::EffectMissing, !self.effects_missing.is_empty()),
            (Breach::EffectRepeated, is_repeated),
            (Breach::Overcounted, !self.overcounted.is_empty()),
        ];
        all.into_iter().filter(|(_, is_broken)| *is_broken).map(|(breach, _)| breach).collect()
    }
}

/// One line: the counts, and the first few violations.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} committed, {} received", self.committed, self.received)?;
        ids(f, "lost", &self.lost)?;
        ids(f, "phantom", &self.phantom)?;
        ids(f, "duplicated", &self.duplicated)?;
        write!(f, ", {} reordered", self.reordered.len())?;
        if let Some(reordered) = self.reordered.first() {
            let Reordered { key, earlier, later } = reordered;
            write!(f, " (of key {key}, {later} came before {earlier})")?;
        }
        if self.explains && !self.unexplained.is_empty() {
            ids(f, "unexplained", &self.unexplained)?;
        }
        if !self.after_discard.is_empty() {
            ids(f, "tried after discard", &self.after_discard)?;
        }
        if !self.overcounted.is_empty() {
            ids(f, "overcounted", &self.overcounted)?;
        }
        effects(f, "effects missing", &self.effects_missing)?;
        effects(f, "effects repeated", &self.effects_repeated)?;
        effects(f, "effects without a message", &self.effects_unasked)
    }
}

fn ids(f: &mut fmt::Formatter<'_>, what: &str, ids: &[MessageId]) -> fmt::Result {
    let shown: Vec<String> = ids.iter().take(3).map(ToString::to_string).collect();
    write!(f, ", {} {what}{}", ids.len(), in_brackets(&shown))
}

fn effects(f: &mut fmt::Formatter<'_>, what: &str, effects: &[Effect]) -> fmt::Result {
    if effects.is_empty() {
        return Ok(());
    }
    let shown =
        effects.iter().take(3).map(|effect| format!("{} of {}", effect.id, effect.consumer));
    write!(f, ", {} {what}{}", effects.len(), in_brackets(&shown.collect::<Vec<_>>()))
}

fn in_brackets(shown: &[String]) -> String {
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) }
}
