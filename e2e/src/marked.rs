//! Messages marked with a word and a number: the word tells when they were committed, the number in
//! which order.

use std::collections::{BTreeMap, HashSet};

use crate::{Arrival, TOPIC, execute};

/// Messages of one transaction.
const TRANSACTION: usize = 10;
/// Keys that the messages of a word are spread over.
const KEYS: usize = 10;

/// Commits messages of a word in the database of the URL, whichever it is, ten in a transaction.
///
/// # Panics
/// When the database refuses.
pub async fn enqueue_marked(url: &str, word: &str, count: usize) {
    let table = match url.split(':').next() {
        Some("postgres") => "posthaste.outbox (topic, key, payload)",
        Some("mysql") => "posthaste_outbox (topic, `key`, payload)",
        _ => "posthaste_outbox (topic, key, payload)",
    };
    for first in (0..count).step_by(TRANSACTION) {
        let numbers = first..count.min(first + TRANSACTION);
        let rows = numbers.map(|n| format!("('{TOPIC}', 'key-{}', '{word} {n}')", n % KEYS));
        let rows = rows.collect::<Vec<_>>().join(", ");
        execute(url, &format!("INSERT INTO {table} VALUES {rows}")).await;
    }
}

/// How many different messages of a word arrived.
#[must_use]
pub fn count_marked(all: &[Arrival], word: &str) -> usize {
    let of_word = all.iter().filter(|arrival| number(arrival, word).is_some());
    of_word.map(|arrival| arrival.id).collect::<HashSet<_>>().len()
}

/// Asserts that, per key, the first deliveries of a word's messages are in the order of commits.
///
/// # Panics
/// When they are not.
pub fn assert_marked_order(all: &[Arrival], word: &str) {
    let mut seen = HashSet::new();
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for arrival in all.iter().filter(|arrival| seen.insert(arrival.id)) {
        let Some(number) = number(arrival, word) else { continue };
        let key = arrival.key.as_deref().expect("marked messages have a key");
        let before = last.insert(key, number);
        assert!(before.is_none_or(|before| before < number), "{key}: {before:?} then {number}");
    }
}

fn number(arrival: &Arrival, word: &str) -> Option<usize> {
    arrival.payload.as_deref()?.strip_prefix(word)?.trim().parse().ok()
}
