//! What nodes may take of processors, and what they took.

use samara_lab::run::ProcessorLook;
use samara_lab::scenario::Mix;

use crate::process::NodeProcess;
use crate::quota::Quota;
use crate::run::unix_ns;

/// The processors of the nodes of a pool.
pub(super) struct Processors {
    nodes: u32,
    quota: Option<Quota>,
    /// What each node's process had taken at the last look, in nanoseconds.
    last: Vec<u64>,
    /// Looks at times since 1970.
    looks: Vec<ProcessorLook>,
}

impl Processors {
    pub(super) fn new(mix: &Mix, nodes: u32) -> Result<Self, String> {
        let part = mix.processor.fraction();
        let quota = (part < 1.0).then(|| Quota::new(part * f64::from(mix.cores))).transpose();
        Ok(Self {
            nodes,
            quota: quota.map_err(|e| refused(&e))?,
            last: vec![0; nodes as usize],
            looks: Vec::new(),
        })
    }

    /// Keeps those of these processes that are nodes to their part from now on.
    pub(super) fn limit(&mut self, processes: &[NodeProcess]) -> Result<(), String> {
        let Some(quota) = &mut self.quota else { return Ok(()) };
        for node in processes.iter().filter(|process| process.number() < self.nodes) {
            quota.limit(&node.number().to_string(), node.id()).map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    /// Notes what was taken so far.
    pub(super) fn look(&mut self, processes: &[NodeProcess]) {
        let mut nanos = self.looks.last().map_or_else(|| vec![0; self.last.len()], |look| look.nanos.clone());
        for ((sum, last), process) in nanos.iter_mut().zip(&mut self.last).zip(processes) {
            let now = (process.usage.cpu_s * 1e9) as u64;
            // A process that was started again begins at nothing.
            *sum += now.checked_sub(*last).unwrap_or(now);
            *last = now;
        }
        self.looks.push(ProcessorLook { at: unix_ns(), nanos });
    }

    /// All looks, at times since `start`.
    pub(super) fn done(self, start: u64) -> Vec<ProcessorLook> {
        let since = |look: ProcessorLook| ProcessorLook { at: look.at.saturating_sub(start), ..look };
        self.looks.into_iter().map(since).collect()
    }
}

fn refused(error: &std::io::Error) -> String {
    format!(
        "mix.processor: processes cannot be kept to a part of a processor: {error}; run as root, or set mix.processor = \"100 %\""
    )
}
