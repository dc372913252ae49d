//! The outbox, hash tables, the reader of protobuf, and the drivers for tests.
#![allow(missing_docs, reason = "a test program")]

mod outbox;
mod protobuf;
mod tables;
mod testing;
