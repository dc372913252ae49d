//! A process of a benchmark that reads commands and answers with lines, and the kernel's accounting
//! of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

use crate::Anyhow;

pub(crate) struct Process {
    pub(crate) child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Anyhow<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let commands = child.stdin.take().ok_or("no standard input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let (sender, answers) = channel();
        // A thread reads the output, so that waiting for a silent process can time out.
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
            RecvTimeoutError::Disconnected => format!("the process has exited, expected {word:?}"),
        })?;
        match line.strip_prefix(word) {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(format!("the process answered {line:?}, expected {word:?}").into()),
        }
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

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
