//! A group of members, the loads it carries and the faults it suffers.

use std::time::{Duration, Instant};

use crate::Anyhow;
use crate::histogram::Histogram;
use crate::network::Network;
use crate::node::Implementation;
use crate::process::Process;

/// Limit for a start, for messages in flight and for a view after a crash: DAISYCHAIN takes 40 to
/// 55 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// The result of a measured load.
pub(crate) struct Delivered {
    /// Payload delivered per member and second in MB, own messages included, until the last member
    /// has every message: the unit of the JGroups post.
    pub(crate) mb_per_s: f64,
    /// Processor seconds of all members for each GB delivered at any member.
    pub(crate) cpu_s_per_gb: f64,
    pub(crate) latencies: Histogram,
}

pub(crate) struct Crash {
    /// The longest time without a delivery at any survivor.
    pub(crate) gap: Duration,
    /// Messages of survivors that some member did not deliver.
    pub(crate) missing: u64,
    /// Messages of the victim that some survivors delivered and others did not.
    pub(crate) disagreed: u64,
}

pub(crate) struct Leave {
    /// Messages, of the leaver or of others, that a remaining member did not deliver.
    pub(crate) missing: u64,
    /// Processor time of all members together in cores (1 is one core), after the load has ended.
    pub(crate) idle_cores: f64,
}

/// A group of members, each in its own process.
pub(crate) struct Cluster {
    /// Members by rank, which is the order of joining.
    nodes: Vec<Option<Process>>,
    /// Messages sent in measured loads.
    sent: u64,
}

impl Cluster {
    pub(crate) fn start(
        implementation: &Implementation,
        network: &Network,
        count: usize,
        number: usize,
    ) -> Anyhow<Self> {
        let members = network.members(count, number);
        let mut nodes = Vec::new();
        for index in 0..count {
            let namespace = network.namespace(index);
            let mut node = Process::start(implementation, namespace.as_deref(), index, &members)?;
            node.answer("joined", PATIENCE)?;
            nodes.push(Some(node));
        }
        let mut cluster = Self { nodes, sent: 0 };
        cluster.wait_for_view(count)?;
        Ok(cluster)
    }

    fn up(&mut self) -> impl Iterator<Item = &mut Process> {
        self.nodes.iter_mut().flatten()
    }

    fn wait_for_view(&mut self, members: usize) -> Anyhow<()> {
        let start = Instant::now();
        loop {
            let mut all = true;
            for node in self.up() {
                all &= node.members()? == members;
            }
            if all {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("no view of {members} members after {PATIENCE:?}").into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn processor_seconds(&mut self) -> Anyhow<f64> {
        self.up().map(|node| node.processor_seconds()).sum()
    }

    /// Has the first `senders` members send `count` messages each, at `rate` messages a second or,
    /// if it is 0, as fast as they can.
    pub(crate) fn load(&mut self, senders: usize, count: u64, bytes: usize, rate: f64) -> Anyhow<Delivered> {
        self.latencies()?;
        let before = self.processor_seconds()?;
        let total = senders as u64 * count;
        self.sent += total;
        let expected = self.sent;
        for (index, node) in self.up().enumerate() {
            let count = if index < senders { count } else { 0 };
            node.tell(&format!("send {count} {bytes} {rate} {expected}"))?;
        }
        let mut slowest: u64 = 0;
        for node in self.up() {
            slowest = slowest.max(node.answer("done", PATIENCE)?.parse()?);
        }
        let megabytes = total as f64 * bytes as f64 / 1e6;
        let gigabytes = megabytes * self.up().count() as f64 / 1e3;
        let cpu = self.processor_seconds()? - before;
        self.check_order()?;
        Ok(Delivered {
            mb_per_s: megabytes / (slowest as f64 / 1e9),
            cpu_s_per_gb: cpu / gigabytes,
            latencies: self.latencies()?,
        })
    }

    fn latencies(&mut self) -> Anyhow<Histogram> {
        let mut all = Histogram::default();
        for node in self.up() {
            all.merge(&node.latencies()?);
        }
        Ok(all)
    }

    fn check_order(&mut self) -> Anyhow<()> {
        for node in self.up() {
            let (disordered, _) = node.counts()?;
            if disordered > 0 {
                return Err(format!("{disordered} messages arrived out of their sender's order").into());
            }
        }
        Ok(())
    }

    fn flow(&mut self, bytes: usize) -> Anyhow<()> {
        self.up().try_for_each(|node| node.ask(&format!("flow {bytes} 0"), "flowing").map(drop))
    }

    /// Ends all streams. Returns for each member the messages sent since its start, or `None` for a
    /// member that has left or crashed.
    fn halt(&mut self) -> Anyhow<Vec<Option<u64>>> {
        self.nodes.iter_mut().map(|node| node.as_mut().map(Process::halt).transpose()).collect()
    }

    /// Waits until every member has every message, or until no message has arrived for a while.
    /// Returns two sums over members: messages missing, and, for senders with an unknown total, the
    /// differences between the counts at members.
    fn missing(&mut self, sent: &[Option<u64>]) -> Anyhow<(u64, u64)> {
        // JGroups requests missing messages every second.
        const QUIET: Duration = Duration::from_secs(10);
        let (mut last, mut since) = (None, Instant::now());
        loop {
            let mut counts = Vec::new();
            for node in self.up() {
                counts.push(node.counts()?.1);
            }
            let of = |sender: usize| counts.iter().map(move |counts| counts[sender]);
            let lacking = |(sender, sent): (usize, &Option<u64>)| {
                sent.map_or(0, |sent| of(sender).map(|count| sent.saturating_sub(count)).sum())
            };
            let missing: u64 = sent.iter().enumerate().map(lacking).sum();
            let disagreed = (0..sent.len())
                .filter(|sender| sent[*sender].is_none())
                .map(|sender| of(sender).max().unwrap_or(0) - of(sender).min().unwrap_or(0));
            let disagreed: u64 = disagreed.sum();
            if missing + disagreed == 0 || since.elapsed() > QUIET {
                return Ok((missing, disagreed));
            }
            if last.as_ref() != Some(&counts) {
                (last, since) = (Some(counts), Instant::now());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Kills a member while all members send as fast as they can.
    pub(crate) fn crash(mut self, victim: usize, bytes: usize) -> Anyhow<Crash> {
        self.flow(bytes)?;
        std::thread::sleep(Duration::from_secs(3));
        for node in self.up() {
            node.gap()?;
        }
        if let Some(mut node) = self.nodes[victim].take() {
            node.kill()?;
        }
        let survivors = self.up().count();
        self.wait_for_view(survivors)?;
        std::thread::sleep(Duration::from_secs(3));
        let mut gap = Duration::ZERO;
        for node in self.up() {
            gap = gap.max(node.gap()?);
        }
        let sent = self.halt()?;
        let (missing, disagreed) = self.missing(&sent)?;
        self.check_order()?;
        Ok(Crash { gap, missing, disagreed })
    }

    /// Has a member leave while all others send as fast as they can. The leaver sends as well until
    /// then.
    pub(crate) fn leave(mut self, leaver: usize, bytes: usize) -> Anyhow<Leave> {
        self.flow(bytes)?;
        std::thread::sleep(Duration::from_secs(2));
        let Some(mut node) = self.nodes[leaver].take() else {
            return Err("the leaver is not running".into());
        };
        let of_leaver = node.halt()?;
        node.tell("leave")?;
        node.answer("left", PATIENCE)?;
        node.wait_for_end(PATIENCE)?;
        let survivors = self.up().count();
        self.wait_for_view(survivors)?;
        std::thread::sleep(Duration::from_secs(2));
        let mut sent = self.halt()?;
        sent[leaver] = Some(of_leaver);
        let (missing, _) = self.missing(&sent)?;
        let (before, start) = (self.processor_seconds()?, Instant::now());
        std::thread::sleep(Duration::from_secs(3));
        let idle_cores = (self.processor_seconds()? - before) / start.elapsed().as_secs_f64();
        Ok(Leave { missing, idle_cores })
    }
}
