//! Numbers, keys and secrets.
#![allow(clippy::unwrap_used, reason = "tests")]

mod keys;
mod pool;
mod primes;
mod secrecy;
