//! In which partitions a producer has been acknowledged. There the servers know it and refuse a batch
//! that comes in spite of the failure of the one before; elsewhere they take any.

use std::collections::HashMap;

/// What a producer knows of the topics it has met.
#[derive(Debug, Default)]
pub(crate) struct Partitions(HashMap<String, Topic>);

#[derive(Debug)]
struct Topic {
    is_known: Vec<bool>,
    unknown: usize,
}

impl Partitions {
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.0.contains_key(topic)
    }

    /// A topic with so many partitions.
    pub(crate) fn found(&mut self, topic: &str, partitions: usize) {
        let found = Topic { is_known: vec![false; partitions], unknown: partitions };
        self.0.insert(topic.to_owned(), found);
    }

    /// Whether a message of the key may go to a partition that does not know the producer.
    pub(crate) fn is_new(&self, topic: &str, key: &str) -> bool {
        self.0.get(topic).is_none_or(|topic| {
            topic.unknown > 0 && !topic.is_known[partition(key, topic.is_known.len())]
        })
    }

    /// A message of the key was acknowledged.
    pub(crate) fn acknowledged(&mut self, topic: &str, key: &str) {
        let Some(topic) = self.0.get_mut(topic).filter(|topic| topic.unknown > 0) else { return };
        let at = partition(key, topic.is_known.len());
        if !std::mem::replace(&mut topic.is_known[at], true) {
            topic.unknown -= 1;
        }
    }
}

/// The partition of a key, as the client library and Java's producer choose it. There is one at least.
fn partition(key: &str, partitions: usize) -> usize {
    (murmur2(key.as_bytes()) & 0x7fff_ffff) as usize % partitions.max(1)
}

/// MurmurHash2 with Kafka's seed.
fn murmur2(bytes: &[u8]) -> u32 {
    const FACTOR: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(FACTOR);
        let word = (word ^ (word >> 24)).wrapping_mul(FACTOR);
        hash = hash.wrapping_mul(FACTOR) ^ word;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(FACTOR);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(FACTOR);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_java() {
        for (text, hash) in [
            ("kafka", 0xd067_cf64),
            ("giberish123456789", 0x8f55_2b0c),
            ("1234", 0x9fc9_7b14),
            ("234", 0xe7c0_09ca),
            ("34", 0x8739_30da),
            ("4", 0x5a4b_5ca1),
            ("", 0x106e_08d9),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn a_partition_is_new_until_something_of_it_is_acknowledged() {
        let mut partitions = Partitions::default();
        assert!(partitions.is_new("orders", "a"));
        partitions.found("orders", 1);
        assert!(partitions.is_new("orders", "a"));
        partitions.acknowledged("orders", "b");
        assert!(!partitions.is_new("orders", "a"), "there is but one");
    }
}
