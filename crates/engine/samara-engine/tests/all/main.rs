//! Tests of counters, the outbox, hash tables, the protobuf reader, and the drivers for tests.

mod counters;
mod outbox;
mod protobuf;
mod tables;
mod testing;
