//! The built program as a black box, on PostgreSQL and on SQLite. Tests are named after the requirement
//! they show; `D3-nn` is the defect of the original that must not come back.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod bed;
mod compose;
mod create;
mod database;
mod idempotency;
mod load;
mod pointers;
mod read;
mod relayed;
mod running;
mod settlement;
mod worker;
