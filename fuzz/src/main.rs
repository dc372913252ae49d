//! Fuzz targets of everything in Samara that parses bytes of others, in one program.
//!
//! ```text
//! samara-fuzz --list                           the names of the targets
//! samara-fuzz --write-seeds FOLDER             writes the seeds of each target, FOLDER/TARGET/NUMBER
//! samara-fuzz TARGET [FILE, FOLDER or -OPTION]...    libFuzzer, which replays files
//! ```
//!
//! A target checks more than the absence of panics: a decoded frame encodes to the same frame, a
//! stream has the same frames in any pieces, an engine keeps its bounds.

mod baselines;
mod files;
mod groups;
mod mail;
mod mconn;
mod mix;
mod net;
mod nodes;
mod ring;
mod wire;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::{env, fs, io, slice};

// Only its C++ part, which provides `LLVMFuzzerRunDriver`.
use libfuzzer_sys as _;

/// Maximum size of an allocation. Inputs have some kilobytes, so a larger one has the size of a number
/// in them, and would exhaust the memory before the limit of libFuzzer notices.
const ALLOCATION_MAX: usize = 256 << 20;

/// The allocator of the system, which ends the process upon a larger allocation. libFuzzer reports
/// that with the input.
struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

// SAFETY: the allocator of the system does all work, with the same arguments.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        within_limit(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        within_limit(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        within_limit(size);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

fn within_limit(size: usize) {
    if size > ALLOCATION_MAX {
        // A panic could allocate as well, and be caught.
        std::process::abort();
    }
}

struct Target {
    name: &'static str,
    /// Panics if an input shows an error.
    check: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
}

const TARGETS: &[Target] = &[
    Target { name: "protobuf", check: wire::protobuf, seeds: wire::protobuf_seeds },
    Target { name: "gossipsub-frame", check: wire::gossipsub, seeds: wire::gossipsub_seeds },
    Target { name: "partial-columns", check: wire::partial_columns, seeds: wire::partial_columns_seeds },
    Target { name: "gossipsub-stream", check: wire::gossipsub_stream, seeds: wire::gossipsub_stream_seeds },
    Target { name: "cat-frame", check: wire::cat, seeds: wire::cat_seeds },
    Target { name: "ring-frame", check: wire::ring, seeds: wire::ring_seeds },
    Target { name: "mix-frame", check: wire::mix, seeds: wire::mix_seeds },
    Target { name: "gossipsub-node", check: nodes::gossipsub, seeds: nodes::gossipsub_seeds },
    Target { name: "cat-node", check: nodes::cat, seeds: nodes::cat_seeds },
    Target { name: "ring-node", check: nodes::ring, seeds: nodes::ring_seeds },
    Target { name: "federation-node", check: nodes::federation, seeds: nodes::federation_seeds },
    Target { name: "mix-node", check: nodes::mix, seeds: nodes::mix_seeds },
    Target { name: "baselines-node", check: baselines::baselines, seeds: baselines::baselines_seeds },
    Target { name: "federation-letter", check: wire::letter, seeds: wire::letter_seeds },
    Target { name: "ring-stream", check: ring::stream, seeds: ring::stream_seeds },
    Target { name: "ring-handshake", check: ring::handshake, seeds: ring::handshake_seeds },
    Target { name: "group-files", check: groups::files, seeds: groups::files_seeds },
    Target { name: "mconn-handshake", check: mconn::handshake, seeds: mconn::handshake_seeds },
    Target { name: "mconn-packets", check: mconn::packets, seeds: mconn::packets_seeds },
    Target { name: "mconn-frames", check: mconn::frames, seeds: mconn::frames_seeds },
    Target { name: "mconn-info", check: mconn::node_info, seeds: mconn::node_info_seeds },
    Target { name: "mix-services", check: mix::services, seeds: mix::services_seeds },
    Target { name: "mix-announcements", check: mix::announcements, seeds: mix::announcements_seeds },
    Target { name: "mix-submissions", check: mix::submissions, seeds: mix::submissions_seeds },
    Target { name: "mix-parts", check: mail::parts, seeds: mail::parts_seeds },
    Target { name: "emulation-packet", check: net::packet, seeds: net::packet_seeds },
    Target {
        name: "dashboard-request",
        check: samara_dashboard::fuzz_request,
        seeds: net::dashboard_request_seeds,
    },
    Target { name: "trace", check: files::trace, seeds: files::trace_seeds },
    Target { name: "live", check: files::live, seeds: files::live_seeds },
    Target { name: "graph", check: files::graph, seeds: files::graph_seeds },
    Target { name: "tables", check: files::tables, seeds: files::tables_seeds },
    Target { name: "latencies", check: files::latencies, seeds: files::latencies_seeds },
    Target { name: "scenario", check: files::scenario, seeds: files::scenario_seeds },
];

static CHECK: OnceLock<fn(&[u8])> = OnceLock::new();

unsafe extern "C" {
    /// Runs libFuzzer, and calls `check` with each input (`FuzzerInterface.h`).
    fn LLVMFuzzerRunDriver(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        check: extern "C" fn(*const u8, usize) -> c_int,
    ) -> c_int;
}

extern "C" fn check(data: *const u8, len: usize) -> c_int {
    // SAFETY: libFuzzer passes a buffer of this length, which nobody changes during the call. An
    // empty one may have no address.
    let input = if len == 0 { &[] } else { unsafe { slice::from_raw_parts(data, len) } };
    if let Some(check) = CHECK.get() {
        check(input);
    }
    0
}

/// Runs libFuzzer with the arguments of this program behind the name of the target.
fn fuzz(target: &Target, options: &[String]) -> ExitCode {
    CHECK.get_or_init(|| target.check);
    let arguments = [format!("samara-fuzz {}", target.name)].into_iter().chain(options.iter().cloned());
    let arguments: Vec<CString> = arguments.filter_map(|argument| CString::new(argument).ok()).collect();
    let mut pointers: Vec<*mut c_char> =
        arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
    let mut count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    let mut pointers = pointers.as_mut_ptr();
    // SAFETY: as for `main` in C, the arguments end with zero bytes, their list ends with a null
    // pointer, and both live until the call returns.
    let status = unsafe { LLVMFuzzerRunDriver(&raw mut count, &raw mut pointers, check) };
    ExitCode::from(u8::from(status != 0))
}

fn write_seeds(folder: &Path) -> io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("{number:02}")), seed)?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (first, rest) = arguments.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    match (first, rest) {
        ("--list", []) => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            ExitCode::SUCCESS
        }
        ("--write-seeds", [folder]) => match write_seeds(Path::new(folder)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{folder}: {error}");
                ExitCode::FAILURE
            }
        },
        (name, options) => match TARGETS.iter().find(|target| target.name == name) {
            Some(target) => fuzz(target, options),
            None => {
                eprintln!("found the target \"{name}\"; expected one of those that --list prints");
                ExitCode::FAILURE
            }
        },
    }
}
