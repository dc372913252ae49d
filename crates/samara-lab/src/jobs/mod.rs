//! The jobs that scenarios are made of: what the applications on the nodes do.

pub mod columns;
