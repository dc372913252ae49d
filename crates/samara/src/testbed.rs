//! `samara testbed`.

use std::process::ExitCode;

use crate::args::TestbedOptions;

#[cfg(not(feature = "net"))]
pub(crate) fn run(options: &TestbedOptions) -> Result<ExitCode, String> {
    Err(format!(
        "built without real sockets; use `cargo run --release --features net -- testbed {}`",
        options.scenario.scenario
    ))
}

#[cfg(feature = "net")]
pub(crate) fn run(options: &TestbedOptions) -> Result<ExitCode, String> {
    if let Some(directory) = &options.shadow {
        return gather(options, directory);
    }
    // A network of one's own, where devices can be made, nothing clashes, and TCP can be chosen; only before there are threads.
    // Without one, the machine's own network will do if it is allowed.
    let private = samara_emulation::enter_private_network();
    if let Err(error) = &private {
        samara_emulation::availability().map_err(|missing| format!("{missing}\n{error}"))?;
    }
    let programs = programs(&options.nodes)?;
    let session = crate::session::Session::open(&options.scenario, &options.output)?;
    match run_all(&session, options, &programs, private.is_ok()) {
        Ok(results) => session.finish(results),
        Err(message) => Err(session.fail(message)),
    }
}

/// Turns what nodes have done under Shadow into results.
#[cfg(feature = "net")]
fn gather(options: &TestbedOptions, directory: &std::path::Path) -> Result<ExitCode, String> {
    use samara_lab::results::Outcome;

    crate::export::one_run(&options.scenario.load()?)?;
    let session = crate::session::Session::open(&options.scenario, &options.output)?;
    let gathered = || -> Result<Outcome, String> {
        let point = crate::export::one_run(&session.loaded)?;
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

/// Runs all points, one after the other. Those that were interrupted are `None`.
#[cfg(feature = "net")]
fn run_all(
    session: &crate::session::Session,
    options: &TestbedOptions,
    programs: &[samara_testbed::NodeProgram],
    private_network: bool,
) -> Result<Vec<Option<samara_lab::results::Outcome>>, String> {
    use samara_testbed::TestbedError;
    use samara_trace::live::{Event, LiveWriter, Outcome, RunState};

    let bar = crate::session::progress_bar(session.loaded.points.len(), options.output.quiet);
    let mut results = Vec::new();
    for point in &session.loaded.points {
        let nodes = session.directory.nodes(point).map_err(|error| error.to_string())?;
        let name = crate::live::name(point);
        let writer = LiveWriter::create(session.directory.path(), &format!("testbed-{name}"))
            .map_err(|error| format!("live file of {name}: {error}"))?;
        writer.say(crate::live::unix_ns(), crate::live::started("testbed", Some(name)));
        let testbed = samara_testbed::Options {
            inputs: &session.loaded.inputs,
            nodes: &nodes,
            programs,
            ready_timeout: std::time::Duration::from_secs(options.ready_timeout),
            private_network,
            live: &writer,
            stop: session.stop(),
        };
        let start = results.len() as u64 * crate::session::BAR_STEPS;
        let mut live = session.live.run(point);
        let measured = samara_testbed::run(point, testbed, |doing, progress| {
            bar.set_message(format!("{}: {doing}", point.name()));
            bar.set_position(start + (progress.share * crate::session::BAR_STEPS as f64) as u64);
            live.progress(Some(doing), progress);
        });
        let outcome = match &measured {
            Ok(_) => Outcome::Ok,
            Err(TestbedError::Interrupted) => Outcome::Interrupted,
            Err(_) => Outcome::Failed,
        };
        writer.say(crate::live::unix_ns(), Event::Finished { outcome, message: None });
        results.push(match measured {
            Ok((measured, real)) => {
                let result = measured.outcome().on_real_nodes(real);
                session.directory.run(&*measured, &result).map_err(|error| error.to_string())?;
                live.end(RunState::Done);
                Some(result)
            }
            Err(TestbedError::Interrupted) => None,
            Err(error) => {
                live.end(RunState::Failed);
                return Err(format!("{}: run {}: {error}", session.loaded.source, point.name()));
            }
        });
        if session.stop().load(std::sync::atomic::Ordering::SeqCst) {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(results)
}

#[cfg(feature = "net")]
fn programs(given: &[std::path::PathBuf]) -> Result<Vec<samara_testbed::NodeProgram>, String> {
    use samara_testbed::NodeProgram;

    let own = || -> Result<NodeProgram, String> {
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let arguments = ["node", "--end-with-stdin", "--config"].map(Into::into).to_vec();
        Ok(NodeProgram { name: "samara".to_owned(), program, arguments })
    };
    if given.is_empty() {
        return Ok(vec![own()?]);
    }
    given
        .iter()
        .map(|path| {
            if path.as_os_str() == "samara" {
                return own();
            }
            let program =
                path.canonicalize().map_err(|error| format!("--node {}: {error}", path.display()))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            with_testbed(NodeProgram { name, program, arguments: Vec::new() })
        })
        .collect()
}

/// The same program, started by way of [`end_with`]: only the nodes of this program end with their standard input.
#[cfg(all(feature = "net", target_os = "linux"))]
fn with_testbed(node: samara_testbed::NodeProgram) -> Result<samara_testbed::NodeProgram, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let arguments = ["end-with".into(), std::process::id().to_string().into(), node.program.into()];
    let arguments = arguments.into_iter().chain(node.arguments).collect();
    Ok(samara_testbed::NodeProgram { program: own, arguments, ..node })
}

/// Only Linux can bind a process to its parent.
#[cfg(all(feature = "net", not(target_os = "linux")))]
fn with_testbed(node: samara_testbed::NodeProgram) -> Result<samara_testbed::NodeProgram, String> {
    Ok(node)
}

/// Replaces this process by a program that is killed when the testbed ends. Returns why it cannot.
#[cfg(all(feature = "net", target_os = "linux"))]
pub(crate) fn end_with(testbed: i32, program: &std::path::Path, arguments: &[std::ffi::OsString]) -> String {
    use std::os::unix::process::CommandExt;

    if let Err(error) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        return format!("cannot be bound to the testbed: {error}");
    }
    // It may have ended before.
    if nix::unistd::getppid().as_raw() != testbed {
        return "the testbed has ended".to_owned();
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    format!("{}: {error}", program.display())
}
