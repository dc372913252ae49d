//! The transfer with the kernel's TCP.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt::TcpCongestion,
};
use samara_emulation::Relay;

use crate::linux::{Case, Failure};

const SETTINGS: &str = "/proc/sys/net/ipv4";

/// Sets values that would make transfers depend on earlier ones, in this namespace only. Returns
/// the settings that matter.
pub(crate) fn prepare() -> Result<String, Failure> {
    // By default, Linux starts a connection with the slow start threshold of the previous one to
    // the same address.
    fs::write(format!("{SETTINGS}/tcp_no_metrics_save"), "1")?;
    let values = ["tcp_slow_start_after_idle", "tcp_rmem", "tcp_wmem"].map(|name| {
        let value =
            fs::read_to_string(format!("{SETTINGS}/{name}")).unwrap_or_else(|error| error.to_string());
        format!("{name} = {}", value.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    Ok(format!("{}; initial window 10", values.join(", ")))
}

/// Returns the time from the first write to the last read, for each pair.
pub(crate) fn transfer(relay: &Relay, case: &Case, congestion: &str) -> Result<Vec<Duration>, Failure> {
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for &(from, to) in &case.pairs {
        let listener = TcpListener::bind((relay.bind_address(to), 0))?;
        let address = SocketAddrV4::new(relay.dial_address(from, to), listener.local_addr()?.port());
        senders.push(dial(relay.bind_address(from), address, congestion)?);
        receivers.push(listener.accept()?.0);
    }
    // By then, the last packets of the handshakes have arrived.
    std::thread::sleep(3 * case.latency);
    let payload = vec![7; case.bytes];
    let start = Instant::now();
    std::thread::scope(|scope| {
        let receivers: Vec<_> =
            receivers.into_iter().map(|r| scope.spawn(move || receive(r, case.bytes))).collect();
        for mut sender in senders {
            let payload = &payload;
            scope.spawn(move || sender.write_all(payload));
        }
        receivers
            .into_iter()
            .map(|thread| Ok(thread.join().expect("no receiver panics")?.duration_since(start)))
            .collect()
    })
}

fn dial(from: Ipv4Addr, to: SocketAddrV4, congestion: &str) -> Result<TcpStream, Failure> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, TcpCongestion, &congestion.into()).map_err(|errno| {
        format!("congestion control {congestion:?}: {errno}; load it (`modprobe tcp_{congestion}`)")
    })?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0)))?;
    connect(socket.as_raw_fd(), &SockaddrIn::from(to))?;
    Ok(TcpStream::from(socket))
}

fn receive(mut stream: TcpStream, bytes: usize) -> std::io::Result<Instant> {
    let mut buffer = vec![0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        match stream.read(&mut buffer)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            len => left -= len,
        }
    }
    Ok(Instant::now())
}
