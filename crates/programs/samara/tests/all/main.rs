//! Tests of the program, and of the rules for this repository.

mod architecture;
mod command_line;
mod common;
mod compare;
mod dashboard;
mod export;
#[cfg(feature = "net")]
mod export_shadow;
mod export_trace;
#[cfg(all(feature = "net", target_os = "linux"))]
#[path = "../../../../../interop/go.rs"]
mod go_program;
#[cfg(feature = "net")]
mod group;
mod guides;
mod list;
#[cfg(all(feature = "net", target_os = "linux"))]
mod mix;
#[cfg(all(feature = "net", unix))]
mod node;
mod said_once;
mod sources;
#[cfg(unix)]
mod strangers;
mod sweep;
mod terminal;
#[cfg(all(feature = "net", target_os = "linux"))]
mod testbed;
mod tidy;
