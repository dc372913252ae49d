//! Tests of documents and of the files that they name, and of the errors in them.

mod document;
mod graph;
mod inputs;
mod kinds;
mod table;
mod topology;
