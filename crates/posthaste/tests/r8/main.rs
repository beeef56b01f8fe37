//! The proofs of requirements R8.01 to R8.10: what an inbox and a relay promise together, on real
//! databases, through crashes, copies, replays and every interleaving of two workers.
//!
//! - `crash`: the process is killed at each named point and the input comes again (R8.03).
//! - `copies`: the same message many times at once (R8.04, R8.07, R8.09).
//! - `growth`: what is kept after many messages, and what old ones find (R8.05, R8.06).
//! - `floors`: a real relay that keeps dying, and a watermark that believes what it says (R8.06).
//! - `restored`: a source that was taken back to a backup, and nobody said so (R8.06).
//! - `interleave`: two workers, every order of their calls, a failure at each (R8.10).
//!
//! What one call of a store must do is shown by the inbox suite of `posthaste-conformance`, the
//! library by `tests/inbox.rs` and `tests/consumer.rs`, and the watermark rule by the models in
//! `posthaste-core`; none of it is repeated here.
//! `docs/reference/inbox-proofs.md` points from each requirement to its tests.

#![allow(missing_docs, reason = "a test program")]

mod bed;
mod copies;
mod crash;
#[path = "../desk/mod.rs"]
mod desk;
mod floors;
mod growth;
mod interleave;
mod restored;
mod shelf;
