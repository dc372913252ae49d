//! Tests of the outbox, hash tables, the protobuf reader, and the drivers for tests.

mod outbox;
mod protobuf;
mod tables;
mod testing;
