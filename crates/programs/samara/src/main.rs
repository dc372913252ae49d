//! The program: see `samara --help`, or the guides in `docs/`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: samara::Allocator = samara::ALLOCATOR;

fn main() -> ExitCode {
    samara::Cli::new().run()
}
