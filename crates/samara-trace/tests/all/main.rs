//! Traces and live files: what is written is read again, here and by others.

mod common;
mod files;
mod go;
mod live;
