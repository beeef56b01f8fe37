//! A connection to the consumer, with one batch outstanding at most.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use crate::{
    ack::{ACK_BYTES_MAX, Acks, NativeAck, OriginalAck},
    config::Target,
    frame::{Batch, BatchId},
    outcome::Fault,
};

/// A connection. Dropped with a batch outstanding it is cut, so that nothing lands after the batch
/// was given up.
pub(crate) struct Session {
    stream: TcpStream,
    /// What came back and was not looked at.
    acks: Acks,
    /// From the first byte of a batch to its acknowledgement.
    is_outstanding: bool,
    /// Whether part of a batch was sent and the rest was not: nothing can follow it.
    is_cut_short: bool,
}

/// What is in the bytes that came back.
enum Heard {
    /// No acknowledgement that is complete.
    Nothing,
    /// One of another batch.
    Other,
    /// How many messages of this batch are acknowledged.
    Ours(usize),
}

impl Session {
    /// Connects. Has no deadline of its own.
    pub(crate) async fn dial(target: &Target) -> Result<Self, Fault> {
        let stream = TcpStream::connect((target.host.as_str(), target.port)).await;
        let stream = stream.map_err(Fault::Dial)?;
        stream.set_nodelay(true).map_err(Fault::Dial)?;
        let acks = Acks::default();
        Ok(Self { stream, acks, is_outstanding: false, is_cut_short: false })
    }

    /// Whether the consumer's address is one of this machine or of a private network.
    pub(crate) fn is_near(&self) -> bool {
        match self.stream.peer_addr().map(|address| address.ip().to_canonical()) {
            Ok(std::net::IpAddr::V4(address)) => {
                address.is_loopback() || address.is_private() || address.is_link_local()
            }
            Ok(std::net::IpAddr::V6(address)) => {
                address.is_loopback()
                    || address.is_unique_local()
                    || address.is_unicast_link_local()
            }
            Err(_) => false,
        }
    }

    /// Whether it can be used, as far as is known: not closed by the consumer meanwhile.
    pub(crate) fn is_open(&mut self) -> bool {
        let mut bytes = [0; ACK_BYTES_MAX];
        if self.is_cut_short {
            return false;
        }
        match self.stream.try_read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                // An acknowledgement that came late. Whose it is will be seen.
                self.acks.push(&bytes[..count]);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Sends a batch and waits until all of it is acknowledged. How many of its messages are, from
    /// the first on, and what was in the way of the others.
    pub(crate) async fn exchange(
        &mut self,
        batch: &Batch,
        until: Instant,
    ) -> (usize, Option<Fault>) {
        let sent_at = Instant::now();
        self.is_outstanding = true;
        self.is_cut_short = true;
        match timeout_at(until, self.stream.write_all(&batch.bytes)).await {
            Ok(Ok(())) => self.is_cut_short = false,
            Ok(Err(error)) => return (0, Some(Fault::Lost(error))),
            Err(_) => return (0, Some(Fault::Late(sent_at.elapsed()))),
        }
        let mut acked = 0;
        while acked < batch.messages.len() {
            let next = timeout_at(until, self.next(batch)).await;
            match next.unwrap_or_else(|_| Err(Fault::Late(sent_at.elapsed()))) {
                // A position that goes back says nothing new.
                Ok(count) => acked = acked.max(count),
                Err(fault) => return (acked, Some(fault)),
            }
        }
        self.is_outstanding = false;
        (acked, None)
    }

    /// Waits for the next acknowledgement of this batch; those of others are skipped.
    async fn next(&mut self, batch: &Batch) -> Result<usize, Fault> {
        loop {
            match self.heard(batch).map_err(Fault::Answer)? {
                Heard::Nothing => self.read().await?,
                Heard::Other => {}
                Heard::Ours(count) => return Ok(count),
            }
        }
    }

    fn heard(&mut self, batch: &Batch) -> Result<Heard, String> {
        match &batch.id {
            BatchId::Native(id) => match self.acks.next::<NativeAck>()? {
                None => Ok(Heard::Nothing),
                Some(ack) if ack.batch != *id => Ok(Heard::Other),
                Some(ack) => batch
                    .count_to(ack.position)
                    .map(Heard::Ours)
                    .ok_or_else(|| "the answer has a position that is not in its batch".to_owned()),
            },
            BatchId::Original(id) => Ok(match self.acks.next::<OriginalAck>()? {
                None => Heard::Nothing,
                Some(ack) if ack.id.as_u64() == Some(*id) => Heard::Ours(batch.messages.len()),
                Some(_) => Heard::Other,
            }),
        }
    }

    async fn read(&mut self) -> Result<(), Fault> {
        let mut bytes = [0; ACK_BYTES_MAX];
        match self.stream.read(&mut bytes).await {
            Ok(0) => {
                let words = "the consumer closed the connection";
                Err(Fault::Lost(io::Error::new(io::ErrorKind::UnexpectedEof, words)))
            }
            Ok(count) => {
                self.acks.push(&bytes[..count]);
                Ok(())
            }
            Err(error) => Err(Fault::Lost(error)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_outstanding {
            // A connection that is gone already needs no cutting.
            let _ = self.stream.set_zero_linger();
        }
    }
}
