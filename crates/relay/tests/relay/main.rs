//! The whole relay against the memory store and the memory broker, under virtual time.

mod failures;
mod floors;
mod leases;
mod refusals;
mod support;
mod witness;
