//! Tests that traces and live files can be read again, by this crate and by other programs.

mod common;
mod files;
mod go;
#[path = "../../../../../interop/go.rs"]
mod go_program;
mod live;
