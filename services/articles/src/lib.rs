//! Articles that can be liked, and a graph of the likes: a small service built on Posthaste.
//!
//! - `domain` is the article and what happens to it; `storage` is the port that keeps it, with an
//!   adapter for memory, SQLite and PostgreSQL; `service` is what can be done with articles.
//! - `http` offers that as an API, `serve` runs it with a relay to the consumers.
//! - `graph` is a consumer: `replica` keeps the likes it received, `series` counts them by second,
//!   `plot` draws them.
//! - `load` is the script that likes and checks what arrived, `demo` all of it in one process.

pub mod args;
pub mod demo;
pub mod domain;
pub mod graph;
pub mod http;
pub mod load;
pub mod plot;
pub mod replica;
pub mod series;
pub mod serve;
pub mod service;
pub mod storage;
