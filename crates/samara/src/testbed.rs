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
    use samara_testbed::TestbedError;

    // A network of one's own, where devices can be made, nothing clashes, and TCP can be chosen; only before there are threads.
    // Without one, the machine's own network will do if it is allowed.
    let private = samara_emulation::enter_private_network();
    if let Err(error) = &private {
        samara_emulation::availability().map_err(|missing| format!("{missing}\n{error}"))?;
    }
    let programs = programs(&options.nodes)?;
    let session = crate::session::Session::open(&options.scenario, &options.output)?;
    let bar = crate::session::progress_bar(session.loaded.points.len(), options.output.quiet);
    let mut results = Vec::new();
    for point in &session.loaded.points {
        let nodes = session.directory.nodes(point).map_err(|error| error.to_string())?;
        let testbed = samara_testbed::Options {
            directory: &session.loaded.directory,
            nodes: &nodes,
            programs: &programs,
            ready_timeout: std::time::Duration::from_secs(options.ready_timeout),
            private_network: private.is_ok(),
            stop: session.stop(),
        };
        let start = results.len() as u64 * crate::session::BAR_STEPS;
        let measured = samara_testbed::run(point, testbed, |doing, share| {
            bar.set_message(format!("{}: {doing}", point.name()));
            bar.set_position(start + (share * crate::session::BAR_STEPS as f64) as u64);
        });
        results.push(match measured {
            Ok((measured, real)) => {
                let result = samara_lab::results::RunResult::of_real(&measured, real);
                session.directory.run(&measured, &result).map_err(|error| error.to_string())?;
                Some(result)
            }
            Err(TestbedError::Interrupted) => None,
            Err(error) => return Err(format!("{}: run {}: {error}", session.loaded.source, point.name())),
        });
        if session.stop().load(std::sync::atomic::Ordering::SeqCst) {
            break;
        }
    }
    bar.finish_and_clear();
    session.finish(results)
}

/// This program, or those that were given.
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
            Ok(NodeProgram { name, program, arguments: Vec::new() })
        })
        .collect()
}
