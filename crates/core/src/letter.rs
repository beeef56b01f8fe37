//! Keeps dead letters of consumers whose texts do not fit the columns.
//!
//! An outbox checks its messages, but a message of another sender can have any topic and any key.
//! Its dead letter must be kept all the same, or its consumer would stop at the message for ever.
//! The column then holds the part of the text that fits, and a header of the kept copy holds the
//! whole text, with NULs escaped and without a length limit. Reading the dead letter restores the
//! original message.

use crate::{KEY_BYTES_MAX, Letter, Message, NAME_BYTES_MAX, ParkedView, TOPIC_BYTES_MAX};

/// Longest source, in bytes.
const SOURCE_BYTES_MAX: usize = 512;
/// Prefix of headers that hold a text which does not fit its column.
const KEPT: &str = "posthaste-kept-";
/// Prefix for a header of the message whose own name begins with [`KEPT`].
const HEADER: &str = "posthaste-kept-header-";
/// Stands for NUL, which PostgreSQL's texts cannot hold.
const NUL: &str = "\u{2400}";
/// Ends a text that was cut.
const CUT: char = '…';

impl Letter {
    /// The letter in the form that stores keep: for texts that a column cannot hold (longer than
    /// the limit of an outbox, or with a NUL), the column has a readable form and a header has the
    /// whole text.
    #[must_use]
    pub fn kept(&self) -> Self {
        let mut kept = self.clone();
        for (name, _) in &mut kept.message.headers {
            if name.starts_with(KEPT) {
                name.insert_str(0, HEADER);
            }
        }
        let mut odd = Vec::new();
        for (name, text, bytes_max) in texts(&mut kept.message, &mut kept.provenance.source) {
            let Some(text) = text else { continue };
            if text.len() > bytes_max || text.contains('\0') {
                let shown = shown(text, bytes_max);
                odd.push((format!("{KEPT}{name}"), std::mem::replace(text, shown)));
            }
        }
        kept.message.headers.extend(odd);
        kept
    }

    /// The original letter of a [`kept`](Self::kept) one.
    #[must_use]
    pub fn restored(mut self) -> Self {
        restore(&mut self.message, &mut self.provenance.source);
        self
    }
}

impl ParkedView {
    /// The same as [`Letter::restored`], for the view of a letter.
    #[must_use]
    pub fn restored(mut self) -> Self {
        restore(&mut self.message, &mut None);
        self
    }
}

/// Texts of a letter, with the name of their header and the limit of their column.
fn texts<'l>(
    message: &'l mut Message,
    source: &'l mut Option<String>,
) -> [(&'static str, Option<&'l mut String>, usize); 5] {
    [
        ("topic", Some(&mut message.topic), TOPIC_BYTES_MAX),
        ("key", message.key.as_mut(), KEY_BYTES_MAX),
        ("type", message.event_type.as_mut(), NAME_BYTES_MAX),
        ("content-type", Some(&mut message.content_type), NAME_BYTES_MAX),
        ("source", source.as_mut(), SOURCE_BYTES_MAX),
    ]
}

/// The part of a text that fits its column.
fn shown(text: &str, bytes_max: usize) -> String {
    let mut shown = text.replace('\0', NUL);
    if shown.len() > bytes_max {
        shown.truncate(shown.floor_char_boundary(bytes_max - CUT.len_utf8()));
        shown.push(CUT);
    }
    shown
}

fn restore(message: &mut Message, source: &mut Option<String>) {
    let headers = std::mem::take(&mut message.headers);
    let (kept, own): (Vec<_>, Vec<_>) = headers
        .into_iter()
        .partition(|(name, _)| name.starts_with(KEPT) && !name.starts_with(HEADER));
    for (name, text, _) in texts(message, source) {
        let original = kept.iter().find(|(of, _)| of.strip_prefix(KEPT) == Some(name));
        if let (Some(text), Some((_, original))) = (text, original) {
            text.clone_from(original);
        }
    }
    let name = |name: String| name.strip_prefix(HEADER).map(str::to_owned).unwrap_or(name);
    message.headers = own.into_iter().map(|(of, value)| (name(of), value)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Provenance;

    fn letter(message: Message) -> Letter {
        let provenance = Provenance { source: Some("/a\0b".to_owned()), ..Provenance::default() };
        Letter { consumer: "c".to_owned(), message, provenance, attempts: 1 }
    }

    #[test]
    fn what_a_column_cannot_hold_is_kept_beside_it() {
        let key = "é\0".repeat(KEY_BYTES_MAX);
        let message = Message::from_bytes("t".repeat(300), Some(&key), "")
            .event_type("\0")
            .content_type("c".repeat(256))
            .header("posthaste-kept-key", "not ours")
            .header("posthaste-kept-header-x", "nor this");
        let letter = letter(message);
        let kept = letter.kept();
        assert!(kept.message.topic.len() <= TOPIC_BYTES_MAX && kept.message.topic.ends_with("t…"));
        let kept_key = kept.message.key.as_deref().unwrap_or_default();
        assert!(kept_key.starts_with("é␀é␀") && kept_key.len() <= KEY_BYTES_MAX, "{kept_key}");
        assert_eq!(kept.message.event_type.as_deref(), Some("␀"));
        assert_eq!(kept.provenance.source.as_deref(), Some("/a␀b"));
        assert_eq!(kept.message.headers.len(), 7);
        let restored = kept.restored();
        assert_eq!(restored.message, letter.message);
        assert_eq!(restored.provenance.source, letter.provenance.source);
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let message = Message::from_bytes("t", Some("k"), "").header("tenant", "north");
        let mut letter = letter(message);
        letter.provenance.source = None;
        assert_eq!(letter.kept().message, letter.message);
        assert_eq!(letter.kept().restored().message, letter.message);
    }
}
