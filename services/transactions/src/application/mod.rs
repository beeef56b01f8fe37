//! What can be done with transfers, and the port it needs.

mod idempotency;
mod ports;
mod transfers;

pub use idempotency::{Fingerprint, IDEMPOTENCY_KEY_CHARS_MAX, IdempotencyKey, InvalidKey};
pub use ports::{Ledger, LedgerError, Recorded, StoredTransfer};
pub use transfers::{Created, Transfers};
