//! Numbers, keys and secrets.

mod keys;
mod pool;
mod primes;
mod secrecy;
