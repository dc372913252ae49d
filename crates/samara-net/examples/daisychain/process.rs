//! Members as processes, and the kernel's accounting of them.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, sysconf};

use crate::Anyhow;
use crate::histogram::Histogram;

/// The command that starts a member, without the arguments of the individual member.
#[derive(Clone)]
pub(crate) struct Implementation {
    pub(crate) name: &'static str,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// A member in its own process.
pub(crate) struct Node {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Node {
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
        let mut child = command
            .args(&implementation.arguments)
            .arg(index.to_string())
            .args(members)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", implementation.name))?;
        let commands = child.stdin.take().ok_or("no standard input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let (sender, answers) = channel();
        // A thread reads the output, so that waiting for a silent member can time out.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Self { child, commands, answers })
    }

    pub(crate) fn tell(&mut self, command: &str) -> Anyhow<()> {
        Ok(writeln!(self.commands, "{command}")?)
    }

    /// Returns the rest of the next line, which must start with `word`.
    pub(crate) fn answer(&mut self, word: &str, patience: Duration) -> Anyhow<String> {
        let line = self.answers.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("no answer after {patience:?}, expected {word:?}"),
            RecvTimeoutError::Disconnected => format!("the member has exited, expected {word:?}"),
        })?;
        match line.strip_prefix(word) {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(format!("the member answered {line:?}, expected {word:?}").into()),
        }
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

    /// Processor seconds, in user mode and in the kernel, of all threads (`proc_pid_stat(5)`:
    /// utime, stime).
    pub(crate) fn processor_seconds(&self) -> Anyhow<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name of the program may contain anything, so count from its end: utime is field 14,
        // stime 15.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.map(str::parse::<u64>).sum::<Result<_, _>>()?;
        let per_second = sysconf(SysconfVar::CLK_TCK)?.ok_or("no clock ticks")?;
        Ok(ticks as f64 / per_second as f64)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail only if the process has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
