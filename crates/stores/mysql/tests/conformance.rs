//! The shared suite, on MariaDB.

mod bed;

use std::{process::ExitCode, sync::Arc};

use posthaste_conformance::store::{self, StoreFixture, TestBed};

struct Fixture;

#[async_trait::async_trait]
impl StoreFixture for Fixture {
    async fn fresh(&self) -> Arc<dyn TestBed> {
        Arc::new(bed::Bed::fresh().await)
    }
}

fn main() -> ExitCode {
    store::run("mysql", Fixture)
}
