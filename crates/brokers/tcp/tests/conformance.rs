//! The broker suite.
fn main() {}
