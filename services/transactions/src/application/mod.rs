//! The use cases of transfers, and their port.

mod idempotency;
mod ports;
mod transfers;

pub use idempotency::{Fingerprint, IDEMPOTENCY_KEY_CHARS_MAX, IdempotencyKey, InvalidKey};
pub use ports::{Ledger, LedgerError, Recorded, StoredTransfer};
pub use transfers::{Created, Transfers};
