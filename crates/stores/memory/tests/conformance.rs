//! The store suite on the memory store.

use posthaste_conformance::store;

fn main() -> std::process::ExitCode {
    store::run("memory", store::MemoryFixture)
}
