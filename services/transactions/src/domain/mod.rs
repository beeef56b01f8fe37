//! What a transfer is, and the rules it obeys whoever asks and wherever it is kept.

mod event;
mod settlement;
mod transfer;

pub use event::TransactionCreated;
pub use settlement::{Overdraft, Settlement};
pub use transfer::{
    DESCRIPTION_CHARS_MAX, Draft, Status, Transfer, USER_ID_CHARS_MAX, UserId, Violation,
};
