//! The proofs of requirements R8.01 to R8.10: what an inbox and a relay promise together, on real
//! databases, through crashes, copies, replays and every interleaving of two workers.
//!
//! - `crash`: the process is killed at each named point and the input comes again (R8.03).
//! - `copies`: the same message many times, at once and out of order (R8.04).
//! - `growth`: what is kept after many messages, and what old ones find (R8.05, R8.06).
//! - `interleave`: two workers, every order of their calls, a failure at each (R8.10).
//!
//! What one call of a store must do is shown by the inbox suite of `posthaste-conformance`, and the
//! watermark rule by the model beside it in `posthaste-core`; neither is repeated here.
//! `docs/reference/inbox-proofs.md` points from each requirement to its tests.

#![allow(missing_docs, reason = "a test program")]

mod bed;
mod crash;
mod shelf;
