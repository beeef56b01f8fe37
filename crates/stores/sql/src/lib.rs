//! The outbox on SQL databases, once for all of them.
//!
//! [`SqlStore`] does what the ports ask for. What it knows of a database is a [`Dialect`]: the texts of its
//! statements, its errors, its connections, and the few places where it goes its own way. [`Statement`]
//! lists every statement with its parameters and columns.
//!
//! | file | what it holds |
//! |---|---|
//! | `dialect.rs` | what a database has to provide |
//! | `statement.rs`, `text.rs`, `value.rs` | statements, their texts, parameters and rows |
//! | `call.rs` | how every call runs: a task, a deadline, a transaction |
//! | `fault.rs` | why a call failed, in the same words everywhere |
//! | `store.rs` | the port of the outbox, call by call |
//! | `route.rs`, `lease.rs` | who serves what |
//! | `fetch.rs` | reading a log that is in the order of commits |
//! | `settle.rs`, `parked.rs` | progress, parked messages, dead letters |
//! | `rewind.rs` | noticing that the log went back in time |
//! | `purge.rs`, `journal.rs`, `status.rs` | retention and the picture for people |
//! | `inbox.rs`, `letters.rs` | what consumers have handled, and what they could not |
//! | `migrate.rs` | versions of the tables |

mod call;
mod dialect;
mod fault;
mod fetch;
mod inbox;
mod journal;
mod lease;
mod letters;
mod message;
mod migrate;
mod parked;
mod purge;
mod rewind;
mod route;
mod settle;
mod statement;
mod status;
mod store;
mod text;
mod value;

pub use crate::{
    call::{SqlStore, Work},
    dialect::{Dialect, Reuse, Scope, Session, Sized},
    fault::{Condition, Fault},
    fetch::{Read, read},
    inbox::SqlInbox,
    message::{headers_from_json, headers_to_json},
    migrate::{DEADLINE as MIGRATE_DEADLINE, Migration, apply, numbered},
    rewind::Present,
    statement::{Optional, Statement},
    store::insert,
    text::{File, Namespace, Notation, Text, Texts},
    value::{Cell, Outcome, Param, Row, Value, json_array},
};
