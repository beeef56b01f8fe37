//! Acknowledgements as they come: in pieces, or several at once.

use bytes::{Buf, BytesMut};
use posthaste_core::Seq;
use serde::{Deserialize, Serialize};
use serde_json::{Deserializer, Number};

/// Largest acknowledgement, in bytes.
pub(crate) const ACK_BYTES_MAX: usize = 4096;

/// An acknowledgement of native frames: a line of its own.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct NativeAck {
    /// The batch's name.
    pub(crate) batch: String,
    /// The `seq` of the last of its events that was handled, all before it included.
    pub(crate) position: Seq,
}

impl NativeAck {
    /// The line.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a text and a number always serialise");
        line.push(b'\n');
        line
    }
}

/// An acknowledgement of original frames: an object, and nothing between two of them.
#[derive(Debug, Deserialize)]
pub(crate) struct OriginalAck {
    /// The batch's id. Whatever is no id of ours is somebody else's.
    pub(crate) id: Number,
}

/// Bytes that have come and are not understood yet.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    buffer: BytesMut,
}

impl Acks {
    /// Takes bytes in.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next acknowledgement, once it is complete. An object says itself where it ends, so line
    /// breaks do not matter.
    ///
    /// # Errors
    /// When this is, or becomes, no acknowledgement: what is wrong with it.
    pub(crate) fn next<T>(&mut self) -> Result<Option<T>, String>
    where
        T: for<'a> Deserialize<'a>,
    {
        let mut values = Deserializer::from_slice(&self.buffer).into_iter::<T>();
        let next = values.next();
        let end = values.byte_offset();
        match next {
            Some(Ok(ack)) => {
                self.buffer.advance(end);
                Ok(Some(ack))
            }
            Some(Err(error)) if !error.is_eof() => {
                // The error's own words may quote the answer, and that may hold anything.
                let kind = error.classify();
                Err(format!("the answer is no acknowledgement: {kind:?} error"))
            }
            _ if self.buffer.len() > ACK_BYTES_MAX => {
                Err(format!("the answer is longer than {ACK_BYTES_MAX} bytes"))
            }
            Some(Err(_)) => Ok(None),
            None => {
                // White space.
                self.buffer.clear();
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that these pieces hold, and what ended it.
    fn parse(pieces: &[&[u8]]) -> (Vec<String>, Option<String>) {
        let (mut acks, mut ids) = (Acks::default(), Vec::new());
        for piece in pieces {
            acks.push(piece);
            loop {
                match acks.next::<OriginalAck>() {
                    Ok(Some(ack)) => ids.push(ack.id.to_string()),
                    Ok(None) => break,
                    Err(words) => return (ids, Some(words)),
                }
            }
        }
        (ids, None)
    }

    #[test]
    fn objects_end_where_they_end() {
        let (ids, error) =
            parse(&[b"{\"id\":1}{\"id\":2} \n{\"id\":3,\"x\":[{}]}", b"{\"i", b"d\":4}"]);
        assert_eq!((ids.join(" ").as_str(), error), ("1 2 3 4", None));
    }

    #[test]
    fn what_never_ends_is_an_error_once_it_is_too_long() {
        let mut acks = Acks::default();
        acks.push(b"{\"id\":1,\"x\":\"");
        for _ in 0..ACK_BYTES_MAX / 64 {
            assert!(acks.buffer.len() <= ACK_BYTES_MAX);
            assert!(acks.next::<OriginalAck>().unwrap().is_none());
            acks.push(&[b'x'; 64]);
        }
        assert!(acks.next::<OriginalAck>().unwrap_err().contains("longer"));
    }

    #[test]
    fn errors_show_nothing_of_the_answer() {
        for answer in ["{\"id\":\"hunter2\"}", "{\"hunter2\":1}", "hunter2"] {
            let (_, error) = parse(&[answer.as_bytes()]);
            assert!(error.is_some_and(|words| !words.contains("hunter2")), "{answer}");
        }
    }

    #[test]
    fn white_space_takes_no_room() {
        let mut acks = Acks::default();
        for _ in 0..100 {
            acks.push(&[b'\n'; ACK_BYTES_MAX]);
            assert!(acks.next::<NativeAck>().unwrap().is_none());
        }
        acks.push(&NativeAck { batch: "b".to_owned(), position: -1 }.line());
        assert_eq!(acks.next::<NativeAck>().unwrap().unwrap().position, -1);
        assert!(acks.next::<NativeAck>().unwrap().is_none() && acks.buffer.is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)
        ) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            parse(&pieces);
        }

        #[test]
        fn nearly_json_never_panics(text in "[\\{\\}\\[\\]\",:id0-9e. \n-]{0,200}") {
            parse(&[text.as_bytes()]);
        }

        #[test]
        fn where_it_is_split_does_not_matter(
            ids in prop::collection::vec(any::<u64>(), 0..20),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let text: String = ids.iter().map(|id| format!("{{\"id\":{id}}}")).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.sort_unstable();
            let (mut pieces, mut start) = (Vec::new(), 0);
            for cut in cuts {
                pieces.push(&text.as_bytes()[start..cut]);
                start = cut;
            }
            pieces.push(&text.as_bytes()[start..]);
            let expected: Vec<String> = ids.iter().map(u64::to_string).collect();
            prop_assert_eq!(parse(&pieces), (expected, None));
        }
    }
}
