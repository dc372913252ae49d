//! Uploads and calls in the houses of nodes: real connections and datagrams to a server of their own,
//! from the address of the node, as behind a router, and through the queue of its emulated uplink.

use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use samara_emulation::{CounterReader, HostCounters, RelayError};
use samara_lab::network::{self, Hosts};
use samara_scenario::{FaultKind, Scenario};
use samara_sim::{CALL_PACKETS_PER_S, CALL_PAYLOAD_BYTES, RivalKind, RivalStats};
use socket2::{Domain, Socket, Type};

use crate::TestbedError;
use crate::wire::Wire;
use samara_trace::unix_ns;

/// The longest wait for sockets before a look at the end of the rival.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes of one write or read: some tens of packets.
const BLOCK_BYTES: usize = 64 << 10;
const CALL_EVERY_NS: u64 = 1_000_000_000 / CALL_PACKETS_PER_S as u64;
/// A packet of a call begins with the time at which it was sent.
const STAMP_BYTES: usize = size_of::<u64>();

/// A rival that a scenario has: its fault, its kind and its host.
pub(crate) fn planned(scenario: &Scenario, seed: u64) -> Vec<(usize, RivalKind, u32)> {
    let of = |index: usize| {
        let kind = scenario.faults[index].kind.rival()?;
        (!matches!(kind, RivalKind::Node { .. })).then(|| (index, kind, network::hit(scenario, index, seed)))
    };
    let rivals = (0..scenario.faults.len()).filter_map(of);
    rivals.flat_map(|(index, kind, hosts)| hosts.into_iter().map(move |host| (index, kind, host))).collect()
}

/// Rejects second nodes, for whose links the testbed has no peers.
pub(crate) fn possible(scenario: &Scenario) -> Result<(), String> {
    match scenario.faults.iter().position(|fault| matches!(fault.kind, FaultKind::Node { .. })) {
        Some(index) => Err(format!(
            "fault.{index}.kind: second nodes exist in the simulator only; remove it for the testbed, or select other \
             runs with --only"
        )),
        None => Ok(()),
    }
}

/// The rivals of a run.
#[derive(Default)]
pub(crate) struct Rivals {
    waiting: Vec<Rival>,
    running: Vec<JoinHandle<Result<Option<RivalStats>, TestbedError>>>,
    is_over: Arc<AtomicBool>,
}

impl Rivals {
    /// Prepares the rivals of a scenario, whose servers are on the wire.
    ///
    /// # Errors
    /// The kernel does not have TCP CUBIC.
    pub(crate) fn new(
        scenario: &Scenario,
        hosts: &Hosts,
        seed: u64,
        wire: &Wire,
    ) -> Result<Self, TestbedError> {
        let Wire::Relay(relay) = wire else { return Ok(Self::default()) };
        let planned = planned(scenario, seed);
        if let Some((index, ..)) = planned.iter().find(|(_, kind, _)| *kind != RivalKind::Call) {
            cubic().map_err(|error| {
                TestbedError::Scenario(format!(
                    "fault.{index}.kind: this kernel has no TCP CUBIC for an upload ({error}); load tcp_cubic, and allow it in \
                     /proc/sys/net/ipv4/tcp_allowed_congestion_control"
                ))
            })?;
        }
        let rival = |(server, (index, kind, host)): (u32, (usize, RivalKind, u32))| {
            let fault = &scenario.faults[index];
            let until = fault.until.map_or(u64::MAX, |until| until.nanos());
            Rival {
                fault: index,
                host,
                kind,
                server,
                from: fault.at.nanos(),
                until,
                uplink_bps: hosts.configs[host as usize].uplink_bps,
                latency: scenario.network.latency.nanos(),
                house: relay.bind_address(host),
                server_own: relay.bind_address(server),
                server_seen: relay.dial_address(host, server),
                counters: relay.counters(),
            }
        };
        let servers = hosts.configs.len() as u32..;
        let waiting = servers.zip(planned).map(rival).collect();
        Ok(Self { waiting, running: Vec::new(), is_over: Arc::default() })
    }

    /// Starts all rivals, each at its time. `start` is that of the run, in nanoseconds since 1970.
    pub(crate) fn begin(&mut self, start: u64) -> Result<(), TestbedError> {
        for rival in self.waiting.drain(..) {
            let is_over = Arc::clone(&self.is_over);
            let thread = std::thread::Builder::new().name(format!("rival-{}", rival.server));
            let thread = thread.spawn(move || rival.run(start, &is_over));
            self.running.push(thread.map_err(TestbedError::io("starting the thread of a rival"))?);
        }
        Ok(())
    }

    /// Ends all rivals. Returns those that had begun.
    pub(crate) fn end(&mut self) -> Result<Vec<RivalStats>, TestbedError> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for thread in self.running.drain(..) {
            all.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(all)
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        // After an error of the run, nobody waits for the figures.
        let _ = self.end();
    }
}

/// One rival, at the addresses of its house and of its server.
struct Rival {
    fault: usize,
    host: u32,
    kind: RivalKind,
    /// The number of its server in the relay.
    server: u32,
    /// Nanoseconds from the start of the run.
    from: u64,
    until: u64,
    uplink_bps: u64,
    /// Nanoseconds to the server on an empty path.
    latency: u64,
    house: Ipv4Addr,
    server_own: Ipv4Addr,
    /// The address at which the house sees the server.
    server_seen: Ipv4Addr,
    counters: CounterReader,
}

impl Rival {
    fn run(self, start: u64, is_over: &AtomicBool) -> Result<Option<RivalStats>, TestbedError> {
        let until = start.saturating_add(self.until);
        let is_over = || is_over.load(Ordering::Relaxed) || unix_ns() >= until;
        let wait = || (start + self.from).saturating_sub(unix_ns());
        while wait() > 0 {
            if is_over() {
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY.min(Duration::from_nanos(wait())));
        }
        let before = self.snapshot()?;
        let begun = unix_ns();
        let delays = match self.kind {
            RivalKind::Upload { connections } => self.upload(connections, is_over).map(|()| Vec::new()),
            RivalKind::Call => self.call(is_over),
            // `possible` rejects it.
            RivalKind::Node { .. } => Err(ErrorKind::Unsupported.into()),
        };
        let nanos = unix_ns().saturating_sub(begun);
        let after = self.snapshot()?;
        let what = format!("fault.{}: the rival of node {}", self.fault, self.host);
        let delays_nanos = delays.map_err(TestbedError::io(what))?;
        let [sent, host_sent] = [1, 0].map(|of| after[of].left.since(&before[of].left));
        let drops = |counters: &HostCounters| counters.drops.total().packets;
        let Self { host, kind, uplink_bps, .. } = self;
        let lost = drops(&after[1]) - drops(&before[1]);
        Ok(Some(RivalStats { host, kind, nanos, uplink_bps, sent, host_sent, lost, delays_nanos }))
    }

    /// Returns the counters of the host and of the server.
    fn snapshot(&self) -> Result<[HostCounters; 2], RelayError> {
        let all = self.counters.read()?;
        Ok([self.host, self.server].map(|of| all[of as usize]))
    }

    /// Sends as fast as TCP CUBIC lets it, over so many connections.
    fn upload(&self, connections: u32, is_over: impl Fn() -> bool) -> io::Result<()> {
        let listener = TcpListener::bind((self.server_own, 0))?;
        listener.set_nonblocking(true)?;
        let to = SocketAddr::from((self.server_seen, listener.local_addr()?.port()));
        let senders = (0..connections).map(|_| self.connect(to)).collect::<io::Result<Vec<_>>>()?;
        let mut receivers: Vec<TcpStream> = Vec::new();
        let mut block = vec![0; BLOCK_BYTES];
        while !is_over() {
            let sending = senders.iter().map(|stream| PollFd::new(stream.as_fd(), PollFlags::POLLOUT));
            let others = receivers.iter().map(AsFd::as_fd).chain([listener.as_fd()]);
            let reading = others.map(|socket| PollFd::new(socket, PollFlags::POLLIN));
            let mut sockets: Vec<PollFd<'_>> = sending.chain(reading).collect();
            wait(&mut sockets, LOOK_EVERY)?;
            let ready: Vec<bool> = sockets.iter().map(|socket| socket.any() == Some(true)).collect();
            let (sending, reading) = ready.split_at(senders.len());
            for (mut stream, _) in senders.iter().zip(sending).filter(|(_, is_ready)| **is_ready) {
                later(stream.write(&block))?;
            }
            for (mut stream, _) in receivers.iter().zip(reading).filter(|(_, is_ready)| **is_ready) {
                later(stream.read(&mut block))?;
            }
            while let Some((stream, _)) = later(listener.accept())? {
                stream.set_nonblocking(true)?;
                receivers.push(stream);
            }
        }
        Ok(())
    }

    /// Begins to connect with TCP CUBIC.
    fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = cubic()?;
        // The connection breaks off with the rival, without the rest of its buffer.
        socket.set_linger(Some(Duration::ZERO))?;
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddr::from((self.house, 0)).into())?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {}
            connected => connected?,
        }
        Ok(socket.into())
    }

    /// Sends the packets of a call. Returns how much longer those that arrived were on the way than on
    /// an empty path, in nanoseconds.
    fn call(&self, is_over: impl Fn() -> bool) -> io::Result<Vec<u64>> {
        let receiver = UdpSocket::bind((self.server_own, 0))?;
        receiver.set_nonblocking(true)?;
        // The kernel notes when a packet arrives, so that a busy machine delays no figure.
        setsockopt(&receiver, sockopt::ReceiveTimestampns, &true)?;
        let sender = UdpSocket::bind((self.house, 0))?;
        sender.connect((self.server_seen, receiver.local_addr()?.port()))?;
        let (mut packet, mut delays) = ([0; CALL_PAYLOAD_BYTES as usize], Vec::new());
        let mut next = unix_ns();
        while !is_over() {
            let now = unix_ns();
            if now >= next {
                packet[..STAMP_BYTES].copy_from_slice(&now.to_be_bytes());
                sender.send(&packet)?;
                next += CALL_EVERY_NS;
            }
            let pause = Duration::from_nanos(next.saturating_sub(now)).min(LOOK_EVERY);
            wait(&mut [PollFd::new(receiver.as_fd(), PollFlags::POLLIN)], pause)?;
            while let Some((sent, received)) = receive(&receiver)? {
                delays.push(received.saturating_sub(sent).saturating_sub(self.latency));
            }
        }
        Ok(delays)
    }
}

/// Returns a socket with TCP CUBIC.
fn cubic() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(b"cubic")?;
    Ok(socket)
}

/// Returns the times at which the next packet was sent and at which it arrived; `None` if there is none.
fn receive(socket: &UdpSocket) -> io::Result<Option<(u64, u64)>> {
    let mut stamp = [0; STAMP_BYTES];
    let mut buffers = [IoSliceMut::new(&mut stamp)];
    let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let received = recvmsg::<()>(socket.as_raw_fd(), &mut buffers, Some(&mut space), MsgFlags::empty());
    let Some(received) = later(received.map_err(io::Error::from))? else { return Ok(None) };
    let arrival = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(at) => {
            Some(at.tv_sec() as u64 * 1_000_000_000 + at.tv_nsec() as u64)
        }
        _ => None,
    });
    let arrival = arrival.ok_or_else(|| io::Error::other("the kernel gives no time of arrival"))?;
    Ok(Some((u64::from_be_bytes(stamp), arrival)))
}

/// Returns `None` for what has to wait.
fn later<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

/// Waits until one of the sockets is ready, for at most `longest`.
fn wait(sockets: &mut [PollFd<'_>], longest: Duration) -> io::Result<()> {
    let longest = PollTimeout::try_from(longest).map_err(io::Error::other)?;
    match poll(sockets, longest) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use samara_scenario::load;

    use super::*;

    #[test]
    fn second_nodes_are_refused() {
        samara_families::register();
        let of = |run: &str| {
            possible(&load("rivals", &[], &[run.to_owned()], Some(1)).unwrap().points[0].scenario)
        };
        assert_eq!((of("upload"), of("call")), (Ok(()), Ok(())));
        let error = of("node").unwrap_err();
        assert!(error.starts_with("fault.0.kind: second nodes exist in the simulator only"), "{error}");
    }
}
