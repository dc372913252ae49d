//! Checks that a program can be a host of a testbed.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use samara_lab::run::Progress;
use samara_scenario::Point;

use crate::fleet::HostProgram;
use crate::run::{Done, Options, Stop, hosts};
use crate::usage::tail;
use crate::{TestbedError, fleet};

/// Time in which a program without orders, or with wrong ones, must end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Orders to a program that must end with an error.
const WRONG: [(&str, &str); 3] = [
    ("a line that is no JSON is an error", "{\"listen\":\n"),
    ("an unknown order is an error", "{\"dance\":{}}\n"),
    ("an order without its keys is an error", "{\"listen\":{\"host\":0}}\n"),
];

/// Checks a program by what a testbed does with it: wrong input, the end of its input, and the run of a
/// point on hosts of that program alone. Calls `say` with each check and its outcome.
///
/// # Errors
/// The check itself cannot run, or was interrupted.
pub fn check_host(
    point: &Point,
    options: Options<'_>,
    mut say: impl FnMut(&str, &Result<(), String>),
) -> Result<(), TestbedError> {
    let program = &options.hosts[0];
    for (what, text) in WRONG {
        let ended = speak(program, options, text.as_bytes())?;
        say(
            what,
            &ended.and_then(|(is_success, log)| match (is_success, log.as_str()) {
                (true, _) => Err("it ended with status 0".to_owned()),
                (false, "(empty)") => Err("it said nothing on standard error".to_owned()),
                (false, _) => Ok(()),
            }),
        );
    }
    let ended = speak(program, options, b"")?;
    let is_orderly = |(is_success, log)| {
        if is_success { Ok(()) } else { Err(format!("it ended with an error; its log ends with:\n{log}")) }
    };
    say("it ends when its input ends", &ended.and_then(is_orderly));
    let members = hosts(point, options.inputs).map_err(TestbedError::Scenario)?;
    let ran = fleet::run_and_stop(point, &members, options, |_, _: Progress| {});
    let what = "it listens, carries out commands, and tells events and counters";
    let (done, stopped) = match ran {
        Ok(ran) => ran,
        Err(TestbedError::Scenario(why)) => {
            say(what, &Err(why));
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    say(what, &Ok(()));
    say("it ends in order after a run", &stopped);
    let Done { measured, .. } = done;
    let outcome = measured.outcome();
    let complete =
        if outcome.is_incomplete { Err("something did not arrive in time".to_owned()) } else { Ok(()) };
    say("everything arrives", &complete);
    Ok(())
}

/// Starts a program, says something, closes its input, and waits for its end. Returns whether it ended
/// with success, and the end of its log.
fn speak(
    program: &HostProgram,
    options: Options<'_>,
    text: &[u8],
) -> Result<Result<(bool, String), String>, TestbedError> {
    let log = options.nodes.join("log.txt");
    let mut child = start(program, &log)?;
    if let Some(mut input) = child.stdin.take() {
        // Fails only if the program has ended.
        let _ = input.write_all(text);
    }
    let begun = Instant::now();
    while begun.elapsed() < END_TIMEOUT {
        Stop(options.stop).check()?;
        let status = child.try_wait().map_err(TestbedError::io("waiting for the program"))?;
        if let Some(status) = status {
            return Ok(Ok((status.success(), tail(&log))));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    // Both fail only if it has ended.
    let _ = child.kill();
    let _ = child.wait();
    Ok(Err(format!("it did not end within {END_TIMEOUT:?}")))
}

fn start(program: &HostProgram, log: &Path) -> Result<Child, TestbedError> {
    let file = File::create(log).map_err(TestbedError::io(log.display().to_string()))?;
    let HostProgram { program, arguments, is_foreign, .. } = program;
    let number = (!is_foreign).then_some("0");
    let mut command = Command::new(program);
    command.args(arguments).args(number).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(file);
    command.spawn().map_err(TestbedError::io(format!("starting {}", program.display())))
}
