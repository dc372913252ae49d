//! `mpirun -n K samara run peerdas-100k`: the command line of `samara`, with several processes that
//! simulate one network.

mod world;

use std::process::ExitCode;

use samara_sim::Ranks;
use world::World;

#[global_allocator]
static ALLOCATOR: samara::Allocator = samara::ALLOCATOR;

/// The exit code of `samara` for other invalid input.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let Some(mut world) = World::join() else {
        eprintln!("samara: cannot initialise MPI; start this program with mpirun, or as a single process");
        return ExitCode::from(BAD_INPUT);
    };
    if world.count() == 1 {
        return samara::command_line(None);
    }
    samara::command_line(Some(&mut world))
}
