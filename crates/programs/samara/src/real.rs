//! `samara node` and `samara testbed`, which need real sockets.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use samara_lab::results::Outcome;
use samara_scenario::Point;
use samara_testbed::{Done, HostProgram, TestbedError};
use samara_trace::live::{Event, LiveWriter, Outcome as End, RunState};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{HostCheckOptions, TestbedOptions};
use crate::export::one_run;
use crate::session::{BAR_STEPS, NOT_MET, Session, progress_bar};
use crate::{live, own_program};

/// The bits of a file's mode that let somebody execute it.
const EXECUTABLE: u32 = 0o111;
/// The word that stands for this program.
const SAMARA: &str = "samara";
/// Maximum time for a host to listen.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Exit status if copies were left when the node stopped.
const COPIES_LEFT: u8 = 3;
/// A choice: rare enough to cost nothing, and soon enough for other programs of the machine.
const PURGE_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn node(config: &Path, end_with_stdin: bool) -> Result<ExitCode, String> {
    if end_with_stdin {
        crate::at_end_of_stdin(|| {
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM);
        });
    }
    std::thread::Builder::new()
        .name("purge".to_owned())
        .spawn(purge_regularly)
        .map_err(|error| format!("thread for memory: {error}"))?;
    Ok(match samara_node::run(config)? {
        samara_node::Outcome::Drained => ExitCode::SUCCESS,
        samara_node::Outcome::CopiesLeft => ExitCode::from(COPIES_LEFT),
    })
}

/// Returns unused memory to the system until the process ends. The allocator does so only when a
/// thread frees more: without this, a node keeps the memory of a burst as long as it is idle.
#[expect(unsafe_code, reason = "no crate in use wraps mi_collect; one call, explained where it is made")]
fn purge_regularly() {
    loop {
        std::thread::sleep(PURGE_EVERY);
        // SAFETY: any thread may call it at any time. It touches only memory that is not allocated.
        unsafe { libmimalloc_sys::mi_collect(false) };
    }
}

pub(crate) fn new_certificate(path: &Path) -> Result<ExitCode, String> {
    crate::print(&(samara_node::new_certificate(path)? + "\n"))
}

pub(crate) fn testbed(options: &TestbedOptions) -> Result<ExitCode, String> {
    if let Some(directory) = &options.shadow {
        return gather(options, directory);
    }
    // A private network namespace allows new devices, has no conflicting addresses, and lets the
    // testbed select its TCP. It must be entered before the first thread starts. Without one, the
    // machine's own network is enough if permitted.
    let private = samara_emulation::enter_private_network();
    if let Err(error) = &private {
        samara_emulation::availability().map_err(|missing| format!("{missing}\n{error}"))?;
    }
    let session = Session::open(&options.scenario, &options.output)?;
    match run_all(&session, options, private.is_ok()) {
        Ok(results) => session.finish(results),
        Err(message) => Err(session.fail(message)),
    }
}

/// Runs one host of a testbed. Its log goes to standard error; `RUST_LOG` selects more of it.
pub(crate) fn host(
    scenario: &Path,
    (run, seed): (&str, u64),
    host: u32,
    orders: Option<&Path>,
) -> Result<ExitCode, String> {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    log.try_init().map_err(|error| format!("cannot start logging: {error}"))?;
    // Other runs may not be valid with the values that this one has. Values of a sweep follow its name.
    let only = run.split(' ').next().unwrap_or(run).to_owned();
    let loaded = samara_scenario::load(&scenario.display().to_string(), &[], &[only], None)
        .map_err(|error| format!("--run {run}: {error}"))?;
    let is_wanted = |point: &&Point| point.seed == seed && point.name() == run;
    let point = loaded.points.iter().find(is_wanted);
    let point = point.ok_or_else(|| format!("--run: {run:?} with seed {seed} is not in the scenario"))?;
    let options = samara_lab::run::RunOptions::new(1, &loaded.inputs);
    let orders: Box<dyn BufRead + Send> = match orders {
        None => Box::new(BufReader::new(std::io::stdin())),
        Some(path) => Box::new(BufReader::new(
            File::open(path).map_err(|error| format!("{}: {error}", path.display()))?,
        )),
    };
    samara_lab::run::run_host(point, options, host, orders).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Computes the results of a run under Shadow from the files that its nodes wrote.
fn gather(options: &TestbedOptions, directory: &Path) -> Result<ExitCode, String> {
    one_run(&options.scenario.load()?)?;
    let session = Session::open(&options.scenario, &options.output)?;
    let gathered = || -> Result<Outcome, String> {
        let point = one_run(&session.loaded)?;
        let (measured, real) = samara_testbed::shadow::gather(point, &session.loaded.inputs, directory)
            .map_err(|error| error.to_string())?;
        let result = measured.outcome().on_real_nodes(real);
        session.directory.run(&*measured, &result).map_err(|error| error.to_string())?;
        Ok(result)
    };
    match gathered() {
        Ok(result) => session.finish(vec![Some(result)]),
        Err(message) => Err(session.fail(message)),
    }
}

/// Runs all points, one after the other. Interrupted ones are `None`.
fn run_all(
    session: &Session,
    options: &TestbedOptions,
    private_network: bool,
) -> Result<Vec<Option<Outcome>>, String> {
    let failed = |point: &Point, error: TestbedError| {
        format!("{}: run {}: {error}", session.loaded.source, point.name())
    };
    let scenario = session.directory.path().join("scenario.toml");
    let programs = |point: &Point| programs(&options.hosts, &scenario, point);
    for point in &session.loaded.points {
        samara_testbed::check(point, &session.loaded.inputs, &programs(point)?)
            .map_err(|error| failed(point, error))?;
    }
    let bar = progress_bar(session.loaded.points.len(), options.output.quiet);
    let mut results = Vec::new();
    for point in &session.loaded.points {
        let nodes = session.directory.nodes(point).map_err(|error| error.to_string())?;
        let name = live::name(point);
        let writer = LiveWriter::create(session.directory.path(), &format!("testbed-{name}"))
            .map_err(|error| format!("live file of {name}: {error}"))?;
        writer.say(samara_trace::unix_ns(), live::started("testbed", Some(name)));
        let testbed = samara_testbed::Options {
            inputs: &session.loaded.inputs,
            nodes: &nodes,
            hosts: &programs(point)?,
            ready_timeout: Duration::from_secs(options.ready_timeout),
            private_network,
            is_emulated: true,
            live: Some(&writer),
            stop: &session.stop,
        };
        let start = results.len() as u64 * BAR_STEPS;
        let mut live = session.live.run(point);
        let measured = samara_testbed::run(point, testbed, |doing, progress| {
            bar.set_message(format!("{}: {doing}", point.name()));
            bar.set_position(start + (progress.share * BAR_STEPS as f64) as u64);
            live.progress(Some(doing), progress);
        });
        let outcome = match &measured {
            Ok(_) => End::Ok,
            Err(TestbedError::Interrupted) => End::Interrupted,
            Err(_) => End::Failed,
        };
        writer.say(samara_trace::unix_ns(), Event::Finished { outcome, message: None });
        results.push(match measured {
            Ok(Done { measured, real, rivals }) => {
                let result = measured.outcome().on_real_nodes(real).beside(&rivals);
                session.directory.run(&*measured, &result).map_err(|error| error.to_string())?;
                live.end(RunState::Done);
                Some(result)
            }
            Err(TestbedError::Interrupted) => None,
            Err(error) => {
                live.end(RunState::Failed);
                return Err(failed(point, error));
            }
        });
        if session.stop.load(std::sync::atomic::Ordering::SeqCst) {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(results)
}

/// Returns the programs of the hosts of a point, whose scenario is in a file.
fn programs(given: &[PathBuf], scenario: &Path, point: &Point) -> Result<Vec<HostProgram>, String> {
    let own = || -> Result<HostProgram, String> {
        let (run, seed) = (point.name(), point.seed.to_string());
        let arguments =
            ["host".into(), "--run".into(), run.into(), "--seed".into(), seed.into(), scenario.into()];
        let (name, program) = ("samara host".to_owned(), own_program()?);
        Ok(HostProgram { name, program, arguments: arguments.to_vec(), is_foreign: false })
    };
    if given.is_empty() {
        return Ok(vec![own()?]);
    }
    given
        .iter()
        .map(|path| {
            if path.as_os_str() == SAMARA {
                return own();
            }
            let wrong = |what: &dyn std::fmt::Display| format!("--host {}: {what}", path.display());
            let program = path.canonicalize().map_err(|error| wrong(&error))?;
            let about = program.metadata().map_err(|error| wrong(&error))?;
            if !about.is_file() || about.permissions().mode() & EXECUTABLE == 0 {
                return Err(wrong(&"is no file that can be executed; see chmod(1)"));
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            with_testbed(HostProgram { name, program, arguments: Vec::new(), is_foreign: true })
        })
        .collect()
}

/// Checks that a program can be a host, and says what it checked.
pub(crate) fn host_check(options: &HostCheckOptions) -> Result<ExitCode, String> {
    // A second check beside this one would have the same addresses. Where there are no namespaces, one
    // at a time works. Must be entered before the first thread starts.
    let _ = samara_emulation::enter_private_network();
    let stop = crate::session::stop_on_interrupt()?;
    let only: Vec<String> = options.only.iter().cloned().collect();
    let loaded = samara_scenario::load(&options.scenario, &options.set, &only, None);
    let loaded = loaded.map_err(|error| error.to_string())?;
    let point = loaded.points.first().ok_or_else(|| format!("{}: has no run", loaded.source))?;
    let directory = std::env::temp_dir().join(format!("samara-host-check-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let scenario = directory.join("scenario.toml");
    std::fs::write(&scenario, &loaded.text).map_err(|error| format!("{}: {error}", scenario.display()))?;
    let programs = programs(std::slice::from_ref(&options.program), &scenario, point)?;
    samara_testbed::check(point, &loaded.inputs, &programs).map_err(|error| error.to_string())?;
    let how = samara_testbed::Options {
        inputs: &loaded.inputs,
        nodes: &directory,
        hosts: &programs,
        ready_timeout: START_TIMEOUT,
        private_network: false,
        is_emulated: false,
        live: None,
        stop: &stop,
    };
    let mut failed = 0;
    let checked = samara_testbed::check_host(point, how, |what, outcome| {
        let line = match outcome {
            Ok(()) => format!("✓ {what}\n"),
            Err(why) => format!("✗ {what}: {why}\n"),
        };
        failed += u32::from(outcome.is_err());
        let _ = crate::print(&line);
    });
    checked.map_err(|error| error.to_string())?;
    let (name, run, source) = (&programs[0].name, point.name(), &loaded.source);
    if failed > 0 {
        let others: Vec<String> = loaded.points.iter().skip(1).map(Point::name).collect();
        let others = match others.join(", ") {
            names if names.is_empty() => names,
            names => format!(". --only selects another run: {names}"),
        };
        let (logs, checks) = (directory.display(), if failed == 1 { "check" } else { "checks" });
        crate::terminal::complain_as_program(format_args!(
            "{name}: {failed} {checks} failed with {source}, run {run}; logs are in {logs}{others}"
        ));
        return Ok(ExitCode::from(NOT_MET));
    }
    // Only a failure needs the logs.
    let _ = std::fs::remove_dir_all(&directory);
    crate::print(&format!("{name} can be a host of {source}, run {run}\n"))
}

/// Wraps a program in [`end_with`]: not every program stops when its standard input closes.
#[cfg(target_os = "linux")]
fn with_testbed(host: HostProgram) -> Result<HostProgram, String> {
    let arguments = ["end-with".into(), std::process::id().to_string().into(), host.program.into()];
    Ok(HostProgram { program: own_program()?, arguments: arguments.to_vec(), ..host })
}

/// Returns the program unchanged: only Linux can bind a process to its parent.
#[cfg(not(target_os = "linux"))]
fn with_testbed(host: HostProgram) -> Result<HostProgram, String> {
    Ok(host)
}

/// Replaces this process by a program that the kernel kills when the testbed ends. Returns only if
/// that fails, with the reason.
#[cfg(target_os = "linux")]
pub(crate) fn end_with(testbed: i32, program: &Path, arguments: &[OsString]) -> String {
    use std::os::unix::process::CommandExt;

    if let Err(error) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        return format!("cannot be bound to the testbed: {error}");
    }
    // The testbed may have ended before the call above.
    if nix::unistd::getppid().as_raw() != testbed {
        return "the testbed has ended".to_owned();
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    format!("{}: {error}", program.display())
}
