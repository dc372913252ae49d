//! `mpirun -n K samara run peerdas-100k`: the command line of `samara`, with several processes that simulate one network.

mod world;

use std::process::ExitCode;

use samara_sim::Ranks;
use world::World;

#[global_allocator]
static ALLOCATOR: samara::Allocator = samara::ALLOCATOR;

/// As other mistakes of whoever starts the program.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let Some(mut world) = World::join() else {
        eprintln!("samara: MPI could not be initialised; start this program with mpirun, or once by itself");
        return ExitCode::from(BAD_INPUT);
    };
    if world.count() == 1 {
        return samara::command_line(None);
    }
    samara::command_line(Some(&mut world))
}
