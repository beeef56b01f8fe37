//! The whole relay against the memory store and the memory broker, under virtual time.

mod failures;
mod floors;
mod isolation;
mod leases;
mod outages;
mod refusals;
mod support;
mod witness;
