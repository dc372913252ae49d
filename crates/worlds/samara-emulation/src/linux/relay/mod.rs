//! A running relay: device, routes, thread.

mod report;
mod worker;

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;

use nix::sys::eventfd::{EfdFlags, EventFd};
use samara_sim::{ConfigError, NicDiscipline};
use thiserror::Error;

use super::interface;
use super::netlink::{Destination, Netlink, Treatment};
use super::system::{TUN_FILE, Tun, system};
use crate::config::EmulationConfig;
use crate::emulator::{Emulator, HostCounters};
use crate::error::Unavailable;
use crate::subnets::{MAX_ADDRESSES, Subnets};
pub use report::{Lateness, RelayReport, Unrouted};
use worker::{Request, Worker};

/// The MTU of Ethernet, for packets of the same size as on real paths.
const MTU: u32 = 1_500;

/// Routes with shorter prefixes are default routes to the internet (`0.0.0.0/0`, or the halves
/// `0.0.0.0/1` and `128.0.0.0/1` that VPNs install): more specific routes beside them do no harm.
const SHORTEST_SPECIFIC_PREFIX: u8 = 8;

#[derive(Clone, Debug)]
pub struct RelayConfig {
    pub emulation: EmulationConfig,
    /// The addresses. `None` selects the first free one of [`Subnets::candidates`].
    pub subnets: Option<Subnets>,
    /// Number of packets that the device keeps until the relay has read them. Further packets are
    /// lost ([`RelayReport::device_drops`]).
    pub queue_packets: u32,
    /// Whether the relay's thread runs before all ordinary threads, if the system allows it
    /// ([`RelayReport::realtime`]). Otherwise, on a busy machine, it is some milliseconds late.
    pub realtime: bool,
    /// Whether packets wait for the uplink of their host before the device, on the account of their
    /// sockets, as before an interface of the host at this rate ([`RelayReport::interface`]). For
    /// [`NicDiscipline::RoundRobin`] and [`NicDiscipline::Fifo`]; other queues are behind the
    /// interface.
    pub interface: bool,
    /// The file for creating devices.
    pub tun_file: PathBuf,
}

impl RelayConfig {
    /// Returns the defaults: free subnets, 10,000 packets, real-time priority, no interfaces,
    /// `/dev/net/tun`.
    pub fn new(emulation: EmulationConfig) -> Self {
        Self {
            emulation,
            subnets: None,
            queue_packets: 10_000,
            realtime: true,
            interface: false,
            tun_file: TUN_FILE.into(),
        }
    }
}

#[derive(Debug, Error)]
pub enum RelayError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("hosts: found {0}, expected at most {MAX_ADDRESSES}, as a relay has no more addresses")]
    TooManyHosts(usize),
    #[error("subnets: {0}; choose others, or none for automatic selection")]
    SubnetsTaken(String),
    #[error("subnets: all {0} candidate pairs are in use; stop other testbeds, or choose other subnets")]
    NoFreeSubnets(usize),
    #[error("{step}: {source}")]
    System { step: &'static str, source: io::Error },
    #[error("the relay has stopped{}; later measurements are invalid", because(.0))]
    Stopped(Option<io::Error>),
}

fn because(reason: &Option<io::Error>) -> String {
    reason.as_ref().map(|error| format!(": {error}")).unwrap_or_default()
}

/// A running relay. When it is dropped, or the process ends in any way, the relay ends, and its
/// device, addresses and routes disappear.
#[derive(Debug)]
pub struct Relay {
    name: String,
    index: u32,
    subnets: Subnets,
    hosts: u32,
    requests: Requests,
    interface: Option<Result<(), String>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Relay {
    /// Creates the device and its routes, and starts to carry packets.
    ///
    /// # Errors
    /// The configuration cannot be emulated, the system lacks a requirement, or no subnets are
    /// free.
    pub fn start(config: RelayConfig) -> Result<Self, RelayError> {
        let emulator = Emulator::new(&config.emulation)?;
        let hosts = config.emulation.members();
        if hosts > MAX_ADDRESSES {
            return Err(RelayError::TooManyHosts(hosts));
        }
        let tun = Tun::create(&config.tun_file)?;
        let mut netlink = system("connecting to rtnetlink", Netlink::new())?;
        let up = netlink.bring_up(tun.index, Some(MTU), Some(config.queue_packets));
        system("bringing up the device", up)?;
        let subnets = add_subnets(&mut netlink, tun.index, config.subnets, hosts)?;
        let is_before = matches!(config.emulation.nic, NicDiscipline::RoundRobin | NicDiscipline::Fifo);
        let interface = (config.interface && is_before).then(|| {
            let rates = config.emulation.hosts.iter().map(|host| host.uplink_bps);
            let rows: Vec<_> =
                (0..).zip(rates).map(|(host, rate)| (subnets.bind_address(host), rate)).collect();
            interface::add(&mut netlink, tun.index, &rows).map_err(|error| error.to_string())
        });
        let wake = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
        let wake = Arc::new(system("creating an eventfd", wake.map_err(Into::into))?);
        let (requests, receiver) = channel();
        let worker = Worker::new(tun.file, Arc::clone(&wake), receiver, subnets, emulator);
        let worker = system("preparing the relay", worker)?;
        let thread = std::thread::Builder::new().name(tun.name.clone());
        let thread = thread.spawn(move || worker.run(config.realtime));
        let thread = system("starting the relay's thread", thread)?;
        let (name, index) = (tun.name, tun.index);
        Ok(Self {
            name,
            index,
            subnets,
            hosts: hosts as u32,
            requests: Requests { requests, wake },
            interface,
            thread: Some(thread),
        })
    }

    pub fn device(&self) -> &str {
        &self.name
    }

    pub fn subnets(&self) -> &Subnets {
        &self.subnets
    }

    /// Returns the address of a host, for binding its listening sockets. Sockets that dial need not
    /// be bound.
    ///
    /// # Panics
    /// There is no such host.
    pub fn bind_address(&self, host: u32) -> Ipv4Addr {
        assert!(host < self.hosts, "host {host} of {}", self.hosts);
        self.subnets.bind_address(host)
    }

    /// Returns the address at which host `from` dials and sees host `to`. Do not dial the [own
    /// address](Self::bind_address) of `to`: it is local to the machine, so that packets to it
    /// bypass the relay. Nor dial the address at which a third host sees it: packets would count as
    /// that host's.
    ///
    /// # Panics
    /// There is no such host.
    pub fn dial_address(&self, from: u32, to: u32) -> Ipv4Addr {
        assert!(from.max(to) < self.hosts, "hosts {from} and {to} of {}", self.hosts);
        self.subnets.dial_address(from, to)
    }

    /// Cuts ways, each from one host to another, or ends a cut of each: all packets on them are lost
    /// ([`Drops::cut`](crate::Drops::cut)).
    ///
    /// # Errors
    /// The relay has stopped.
    ///
    /// # Panics
    /// There is no such host.
    pub fn cut(&self, ways: &[(u32, u32)], is_cut: bool) -> Result<(), RelayError> {
        let most = ways.iter().map(|(from, to)| *from.max(to)).max();
        assert!(most.is_none_or(|most| most < self.hosts), "ways {ways:?} between {} hosts", self.hosts);
        self.requests.send(Request::Cut { ways: ways.to_vec(), is_cut })
    }

    /// Changes the rates of a host, that of its interface included.
    ///
    /// # Errors
    /// The relay has stopped, or the kernel does not change the interface.
    ///
    /// # Panics
    /// There is no such host.
    pub fn set_rates(&self, host: u32, uplink_bps: u64, downlink_bps: u64) -> Result<(), RelayError> {
        assert!(host < self.hosts, "host {host} of {}", self.hosts);
        if matches!(self.interface, Some(Ok(()))) {
            let mut netlink = system("connecting to rtnetlink", Netlink::new())?;
            let changed = interface::change(&mut netlink, self.index, host, uplink_bps);
            system("changing the rate of an interface", changed)?;
        }
        self.requests.send(Request::Rates { host, uplink_bps, downlink_bps })
    }

    /// Returns the counters so far.
    ///
    /// # Errors
    /// The relay has stopped with an error, or the kernel does not report the drops of the device.
    pub fn report(&mut self) -> Result<RelayReport, RelayError> {
        let mut report = match self.requests.report() {
            Err(RelayError::Stopped(_)) => return Err(self.why_stopped()),
            report => report?,
        };
        // A new connection each time: the caller may be on another thread than the one that started
        // the relay, but not in another namespace.
        let drops = Netlink::new().and_then(|mut netlink| netlink.queue_drops(self.index));
        report.device_drops = system("reading the statistics of the device", drops)?;
        report.interface = self.interface.clone();
        Ok(report)
    }

    /// Stops the relay and returns a last report.
    pub fn stop(mut self) -> Result<RelayReport, RelayError> {
        self.report()
    }

    /// Returns a reader of the counters for other threads.
    pub fn counters(&self) -> CounterReader {
        CounterReader(self.requests.clone())
    }

    fn why_stopped(&mut self) -> RelayError {
        let result = self.thread.take().map(JoinHandle::join);
        let reason = match result {
            Some(Ok(Err(error))) => Some(error),
            Some(Err(_)) => Some(io::Error::other("its thread panicked")),
            Some(Ok(Ok(()))) | None => None,
        };
        RelayError::Stopped(reason)
    }
}

/// Reads the counters of a relay while it runs.
#[derive(Clone, Debug)]
pub struct CounterReader(Requests);

impl CounterReader {
    /// Returns the counters of each host, then of each server, so far.
    ///
    /// # Errors
    /// The relay has stopped.
    pub fn read(&self) -> Result<Vec<HostCounters>, RelayError> {
        Ok(self.0.report()?.hosts)
    }
}

/// The way to the relay's thread.
#[derive(Clone, Debug)]
struct Requests {
    requests: Sender<Request>,
    wake: Arc<EventFd>,
}

impl Requests {
    fn report(&self) -> Result<RelayReport, RelayError> {
        let (answer, report) = sync_channel(1);
        self.send(Request::Report(answer))?;
        report.recv().map_err(|_| RelayError::Stopped(None))
    }

    fn send(&self, request: Request) -> Result<(), RelayError> {
        self.requests.send(request).map_err(|_| RelayError::Stopped(None))?;
        Ok(system("waking the relay", self.wake.write(1).map(drop).map_err(Into::into))?)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // If the relay has stopped already, there is no thread to wait for. If it could not be
        // woken, waiting would block.
        if self.requests.send(Request::Stop).is_ok()
            && let Some(thread) = self.thread.take()
        {
            drop(thread.join());
        }
    }
}

/// The place of the candidates that this process tries first. Sockets of the hosts of its last relay
/// may still repeat what nobody acknowledged; without a route to their peers they cannot.
static NEXT_SUBNETS: AtomicUsize = AtomicUsize::new(0);

/// Adds the routes of the given subnets, or of the first free candidates.
fn add_subnets(
    netlink: &mut Netlink,
    index: u32,
    given: Option<Subnets>,
    hosts: usize,
) -> Result<Subnets, RelayError> {
    let routes = system("reading the routes", netlink.destinations())?;
    if let Some(subnets) = given {
        return if add_routes(netlink, index, subnets, hosts, &routes)? {
            Ok(subnets)
        } else {
            // Another relay was faster.
            let (taken, taken_prefix) = subnets.own();
            Err(subnets_taken(subnets, Destination { address: taken, prefix: taken_prefix }))
        };
    }
    let mut candidates: Vec<(usize, Subnets)> = Subnets::candidates().enumerate().collect();
    let count = candidates.len();
    candidates.rotate_left(NEXT_SUBNETS.load(Ordering::Relaxed) % count);
    for (place, subnets) in candidates {
        match add_routes(netlink, index, subnets, hosts, &routes) {
            Ok(true) => {
                NEXT_SUBNETS.store(place + 1, Ordering::Relaxed);
                return Ok(subnets);
            }
            Ok(false) | Err(RelayError::SubnetsTaken(_)) => (),
            Err(error) => return Err(error),
        }
    }
    Err(RelayError::NoFreeSubnets(count))
}

/// Adds the routes of these subnets. Returns false if another process was faster.
fn add_routes(
    netlink: &mut Netlink,
    index: u32,
    subnets: Subnets,
    hosts: usize,
    routes: &[Destination],
) -> Result<bool, RelayError> {
    let overlaps = |route: &&Destination| {
        route.prefix >= SHORTEST_SPECIFIC_PREFIX && subnets.overlaps(route.address, route.prefix)
    };
    if let Some(route) = routes.iter().find(overlaps) {
        return Err(subnets_taken(subnets, *route));
    }
    let to = |(address, prefix)| Destination { address, prefix };
    let own = netlink.add_route(index, to(subnets.own()), Treatment::Local);
    // Relays that start at the same time contend for this route. Views follow it.
    if own.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        return Ok(false);
    }
    system("adding the route to the hosts' own addresses", own)?;
    for host in 0..hosts as u32 {
        let treatment = Treatment::Device { source: subnets.bind_address(host) };
        let view = netlink.add_route(index, to(subnets.view(host)), treatment);
        system("adding the route to the addresses that a host sees", view)?;
    }
    Ok(true)
}

fn subnets_taken(subnets: Subnets, route: Destination) -> RelayError {
    let ((own, prefix), (peers, _)) = (subnets.own(), subnets.peers());
    let Destination { address: taken, prefix: taken_prefix } = route;
    RelayError::SubnetsTaken(format!(
        "{own} and {peers} with prefix /{prefix} are in use (found a route to {taken}/{taken_prefix})"
    ))
}
