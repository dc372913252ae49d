//! The relay's thread: reads the packets of hosts, and writes due packets.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use samara_engine::Time;

use super::report::{LatenessRecorder, RelayReport, Unrouted};
use crate::emulator::{Emulator, Packet};
use crate::linux::system::take_precedence;
use crate::packet::{Refused, route, translate};
use crate::subnets::Subnets;

/// Packets to read before due ones are written, and the reverse: neither side waits long for the
/// other (64 packets take less than a millisecond).
const BATCH: usize = 64;

/// Maximum length of an IPv4 packet in bytes.
const MAX_PACKET: usize = 65_535;

/// The finest timers: by default the kernel may delay a thread's wake-up by 50 microseconds
/// (`prctl(2)`, `PR_SET_TIMERSLACK`).
const TIMER_SLACK_NANOS: nix::libc::c_ulong = 1;

pub(super) enum Request {
    Report(SyncSender<RelayReport>),
    Cut { ways: Vec<(u32, u32)>, is_cut: bool },
    Rates { host: u32, uplink_bps: u64, downlink_bps: u64 },
    Stop,
}

pub(super) struct Worker {
    tun: File,
    wake: Arc<EventFd>,
    requests: Receiver<Request>,
    subnets: Subnets,
    hosts: u32,
    emulator: Emulator<Box<[u8]>>,
    start: Instant,
    realtime: bool,
    buffer: Box<[u8]>,
    lateness: LatenessRecorder,
    unrouted: Unrouted,
}

impl Worker {
    pub(super) fn new(
        tun: File,
        wake: Arc<EventFd>,
        requests: Receiver<Request>,
        subnets: Subnets,
        emulator: Emulator<Box<[u8]>>,
    ) -> io::Result<Self> {
        let hosts = emulator.counters().count() as u32;
        let lateness = LatenessRecorder::new()?;
        Ok(Self {
            tun,
            wake,
            requests,
            subnets,
            hosts,
            emulator,
            start: Instant::now(),
            realtime: false,
            buffer: vec![0; MAX_PACKET].into_boxed_slice(),
            lateness,
            unrouted: Unrouted::default(),
        })
    }

    /// Carries packets until a request to stop, before ordinary threads if `realtime`.
    pub(super) fn run(mut self, realtime: bool) -> io::Result<()> {
        nix::sys::prctl::set_timerslack(TIMER_SLACK_NANOS)?;
        // A refusal is no error: the report shows it, and the lateness of packets.
        self.realtime = realtime && take_precedence().is_ok();
        loop {
            let more_to_read = self.read()?;
            let more_to_write = self.deliver();
            while let Ok(request) = self.requests.try_recv() {
                match request {
                    // If no caller waits for the report any more, it is dropped.
                    Request::Report(answer) => drop(answer.try_send(self.report())),
                    Request::Cut { ways, is_cut } => {
                        let now = self.now();
                        self.emulator.cut(now, &ways, is_cut);
                    }
                    Request::Rates { host, uplink_bps, downlink_bps } => {
                        let now = self.now();
                        self.emulator.set_rates(now, host, uplink_bps, downlink_bps);
                    }
                    Request::Stop => return Ok(()),
                }
            }
            if !more_to_read && !more_to_write {
                self.wait()?;
            }
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// Reads packets of hosts. Returns whether there may be more.
    fn read(&mut self) -> io::Result<bool> {
        for _ in 0..BATCH {
            match self.tun.read(&mut self.buffer) {
                Ok(len) => self.take(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn take(&mut self, len: usize) {
        let bytes = &mut self.buffer[..len];
        match route(bytes, &self.subnets, self.hosts) {
            Ok(route) => {
                translate(bytes, &self.subnets, route);
                let packet =
                    Packet { from: route.from, to: route.to, bytes: len as u32, payload: Box::from(&*bytes) };
                let now = Time::ZERO + self.start.elapsed();
                self.emulator.push(now, route.flow, packet);
            }
            Err(Refused::NotIpv4) => self.unrouted.not_ipv4.add(1, len as u32),
            Err(Refused::Malformed) => self.unrouted.malformed.add(1, len as u32),
            Err(Refused::UnknownHost { source, destination }) => {
                self.unrouted.unknown_host.add(1, len as u32);
                let addresses = (Ipv4Addr::from_bits(source), Ipv4Addr::from_bits(destination));
                self.unrouted.first_unknown.get_or_insert(addresses);
            }
        }
    }

    /// Delivers due packets. Returns whether there may be more.
    fn deliver(&mut self) -> bool {
        for _ in 0..BATCH {
            let now = self.now();
            let Some(delivery) = self.emulator.poll(now) else { return false };
            self.lateness.record(now.since(delivery.due));
            let packet = delivery.packet;
            if let Err(error) = self.tun.write(&packet.payload) {
                self.unrouted.not_taken.add(1, packet.bytes);
                self.unrouted.first_not_taken.get_or_insert_with(|| error.to_string());
            }
        }
        true
    }

    /// Sleeps until there is a packet to read, a packet due, or a request.
    fn wait(&mut self) -> io::Result<()> {
        let timeout = match self.emulator.next_at() {
            None => None,
            Some(at) => {
                let left = at.since(self.now());
                if left.is_zero() {
                    return Ok(());
                }
                Some(TimeSpec::from_duration(left))
            }
        };
        let mut files = [
            PollFd::new(self.tun.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut files, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => (),
            Err(errno) => return Err(errno.into()),
        }
        if files[1].any() == Some(true) {
            self.wake.read()?;
        }
        Ok(())
    }

    fn report(&self) -> RelayReport {
        // Every thread has this clock. A zero would make the report look better than it is.
        let cpu = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::MAX, Duration::from);
        RelayReport {
            running: self.start.elapsed(),
            cpu,
            realtime: self.realtime,
            lateness: self.lateness.summary(),
            hosts: self.emulator.counters().copied().collect(),
            gateways: self.emulator.gateways().collect(),
            unrouted: self.unrouted.clone(),
            // The caller fills this in, as only the kernel knows it.
            device_drops: 0,
            interface: None,
        }
    }
}
