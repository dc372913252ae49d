//! The outbox, hash tables, the reader of protobuf, and the drivers for tests.

mod outbox;
mod protobuf;
mod tables;
mod testing;
