//! Processes of one implementation, and their resource usage as reported by the kernel.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::histogram::Histogram;
use crate::implementation::Anyhow;
use crate::process::Process;

/// Timeout of the wait for a mesh, and for messages in flight.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program and arguments that start the nodes of an implementation.
pub(crate) struct Implementation {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<&'static str>,
}

pub(crate) struct Node {
    process: Process,
    address: String,
}

impl Node {
    pub(crate) fn start(implementation: &Implementation, index: usize, of: usize) -> Anyhow<Self> {
        let mut command = Command::new(&implementation.program);
        command.args(&implementation.arguments);
        command.args(["-index", &index.to_string(), "-of", &of.to_string()]);
        let mut process = Process::spawn(&mut command)?;
        let address = process.answer("listening", Duration::MAX)?;
        Ok(Self { process, address })
    }

    fn request(&mut self, command: &str, word: &str) -> Anyhow<String> {
        self.process.tell(command)?;
        self.process.answer(word, Duration::MAX)
    }

    pub(crate) fn dial(&mut self, other: &Self) -> Anyhow<()> {
        self.request(&format!("dial {}", other.address), "dialled").map(drop)
    }

    /// Waits until this number of neighbours is in the mesh.
    pub(crate) fn wait_for_mesh(&mut self, members: usize) -> Anyhow<()> {
        let start = Instant::now();
        loop {
            let found: usize = self.request("mesh", "mesh")?.parse()?;
            if found == members {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(
                    format!("the mesh has {found} members after {PATIENCE:?}, expected {members}").into()
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn counts(&mut self) -> Anyhow<(u64, u64)> {
        let counts = self.request("counts", "counts")?;
        let (published, received) =
            counts.split_once(' ').ok_or("the answer to `counts` has only one number")?;
        Ok((published.parse()?, received.parse()?))
    }

    /// Returns the value of a line of `/proc/PID/status` in bytes.
    pub(crate) fn memory(&self, key: &str) -> Anyhow<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let number = line.and_then(|line| line.split_whitespace().next());
        let kib: u64 = number.ok_or_else(|| format!("/proc/PID/status has no {key}"))?.parse()?;
        Ok(kib << 10)
    }
}

/// The delivered copies, and their cost.
pub(crate) struct Delivered {
    pub(crate) copies: u64,
    pub(crate) seconds: f64,
    pub(crate) processor_seconds: f64,
}

/// Nodes of one implementation that share a load.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    loads: u8,
}

impl Cluster {
    pub(crate) const fn new(nodes: Vec<Node>) -> Self {
        Self { nodes, loads: 0 }
    }

    /// Starts `size` nodes and connects each one with every other.
    pub(crate) fn full_mesh(implementation: &Implementation, size: usize) -> Anyhow<Self> {
        let mut nodes: Vec<Node> = Vec::new();
        for index in 0..size {
            let mut node = Node::start(implementation, index, size)?;
            nodes.iter().try_for_each(|other| node.dial(other))?;
            nodes.push(node);
        }
        nodes.iter_mut().try_for_each(|node| node.wait_for_mesh(size - 1))?;
        Ok(Self::new(nodes))
    }

    /// Lets every node publish as fast as the others receive.
    pub(crate) fn fill(&mut self, bytes: usize, window: u64, seconds: f64) -> Anyhow<Delivered> {
        self.load(&format!("fill {bytes} {window} {seconds}"), 0)
    }

    /// Lets all nodes except the first `silent` ones publish at this rate each. Returns the
    /// latencies of all deliveries.
    pub(crate) fn pace(
        &mut self,
        bytes: usize,
        per_second: f64,
        seconds: f64,
        silent: usize,
    ) -> Anyhow<Histogram> {
        self.load(&format!("pace {bytes} {per_second} {seconds}"), silent)?;
        self.latencies()
    }

    fn latencies(&mut self) -> Anyhow<Histogram> {
        let mut all = Histogram::default();
        for node in &mut self.nodes {
            all.merge(&node.request("latencies", "latencies")?.parse()?);
        }
        Ok(all)
    }

    fn load(&mut self, command: &str, silent: usize) -> Anyhow<Delivered> {
        self.loads = self.loads.wrapping_add(1);
        let begin = format!("begin {}", self.loads);
        self.nodes.iter_mut().try_for_each(|node| node.request(&begin, "begun").map(drop))?;
        let (start, processor) = (Instant::now(), self.processor_seconds()?);
        self.nodes[silent..].iter_mut().try_for_each(|node| node.process.tell(command))?;
        self.nodes[silent..]
            .iter_mut()
            .try_for_each(|node| node.process.answer("done", Duration::MAX).map(drop))?;
        Ok(Delivered {
            copies: self.wait_for_all()?,
            seconds: start.elapsed().as_secs_f64(),
            processor_seconds: self.processor_seconds()? - processor,
        })
    }

    /// Returns the messages published and received in this load over all nodes.
    fn counts(&mut self) -> Anyhow<(u64, u64)> {
        let mut all = (0, 0);
        for node in &mut self.nodes {
            let (published, received) = node.counts()?;
            all = (all.0 + published, all.1 + received);
        }
        Ok(all)
    }

    fn processor_seconds(&self) -> Anyhow<f64> {
        self.nodes.iter().map(|node| node.process.processor_seconds()).sum()
    }

    /// Waits until every message of this load has arrived at every node, and returns the number of
    /// copies. A load that loses a message fails. A node that receives a message twice ends with an
    /// error.
    fn wait_for_all(&mut self) -> Anyhow<u64> {
        let start = Instant::now();
        loop {
            let (published, delivered) = self.counts()?;
            let expected = published * (self.nodes.len() as u64 - 1);
            if delivered == expected {
                return Ok(delivered);
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("{delivered} copies were delivered, expected {expected}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
