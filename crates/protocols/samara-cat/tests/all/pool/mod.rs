//! The pool compared with the invariants of celestia-core's own suite, and with a model that is too
//! simple to be wrong.
//!
//! The tests of `mempool/cat/pool_test.go`, `store_test.go`, `cache_test.go` and
//! `priority_ordering_test.go` have their counterparts here under the same names in snake case,
//! without the prefix `TestTxPool_` or `Test`.

mod admission;
mod cache;
mod commit;
mod deferred;
mod eviction;
mod expiry;
mod harness;
mod model;
mod reap;
mod reference;
mod signer_sets;
mod store;
