//! Members as processes, and their commands.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Anyhow;
use crate::histogram::Histogram;
use crate::process::Process;

/// The command that starts a member, without the arguments of the individual member.
#[derive(Clone)]
pub(crate) struct Implementation {
    pub(crate) name: &'static str,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// Members: processes with these commands.
impl Process {
    /// Starts a process, in a network namespace if there is one. The member has not joined yet.
    pub(crate) fn start(
        implementation: &Implementation,
        namespace: Option<&str>,
        index: usize,
        members: &[String],
    ) -> Anyhow<Self> {
        let mut command = match namespace {
            None => Command::new(&implementation.program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(&implementation.program);
                command
            }
        };
        command.args(&implementation.arguments).arg(index.to_string()).args(members).stderr(Stdio::null());
        Self::spawn(&mut command)
            .map_err(|error| format!("{} does not start: {error}", implementation.name).into())
    }

    /// Sends a command that the member answers at once.
    pub(crate) fn ask(&mut self, command: &str, word: &str) -> Anyhow<String> {
        self.tell(command)?;
        self.answer(word, Duration::from_secs(30))
    }

    /// Number of members in this member's view.
    pub(crate) fn members(&mut self) -> Anyhow<usize> {
        Ok(self.ask("members", "members")?.parse()?)
    }

    /// Messages that arrived out of their sender's order, and the number of messages of each
    /// sender.
    pub(crate) fn counts(&mut self) -> Anyhow<(u64, Vec<u64>)> {
        let counts = self.ask("counts", "counts")?;
        let mut counts = counts.split(' ').map(str::parse);
        let disordered = counts.next().ok_or("no counts")??;
        Ok((disordered, counts.collect::<Result<_, _>>()?))
    }

    pub(crate) fn latencies(&mut self) -> Anyhow<Histogram> {
        Ok(self.ask("latencies", "latencies")?.parse()?)
    }

    /// The longest time without a delivery since the last call.
    pub(crate) fn gap(&mut self) -> Anyhow<Duration> {
        Ok(Duration::from_nanos(self.ask("gap", "gap")?.parse()?))
    }

    /// Ends its stream of messages. Returns the number of messages sent since its start.
    pub(crate) fn halt(&mut self) -> Anyhow<u64> {
        Ok(self.ask("halt", "halted")?.parse()?)
    }

    /// Kills the process with `SIGKILL`.
    pub(crate) fn kill(&mut self) -> Anyhow<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until the process exits.
    pub(crate) fn wait_for_end(&mut self, patience: Duration) -> Anyhow<()> {
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > patience {
                return Err(format!("the member has not exited after {patience:?}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
