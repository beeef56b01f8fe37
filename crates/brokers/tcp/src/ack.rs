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
                Err(format!("the answer is no acknowledgement: {error}"))
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
