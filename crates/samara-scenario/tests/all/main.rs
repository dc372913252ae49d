//! Documents, and the files that they name: what is read, and what is said of one that is wrong.

mod document;
mod graph;
mod inputs;
mod table;
mod topology;
