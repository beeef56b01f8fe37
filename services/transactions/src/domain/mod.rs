//! Transfers and their rules, independent of API and storage.

mod event;
mod settlement;
mod transfer;

pub use event::TransactionCreated;
pub use settlement::{Overdraft, Settlement};
pub use transfer::{
    DESCRIPTION_CHARS_MAX, Draft, Status, Transfer, USER_ID_CHARS_MAX, UserId, Violation,
};
