//! Sockets that are bound to the address of an emulated host.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt::TcpCongestion,
};
use samara_emulation::{Relay, RelayConfig};

/// Only prevents hanging.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a relay, or prints why the test is skipped.
pub(crate) fn start(config: RelayConfig) -> Option<Relay> {
    if let Err(reason) = samara_emulation::availability() {
        eprintln!("SKIPPED: {reason}");
        return None;
    }
    Some(Relay::start(config).expect("a relay can be started here"))
}

/// Dials from the host's own address, with Reno, which every kernel has.
pub(crate) fn dial(relay: &Relay, from: u32, to: u32, port: u16) -> io::Result<TcpStream> {
    dial_address(relay.bind_address(from), SocketAddrV4::new(relay.dial_address(from, to), port))
}

pub(crate) fn dial_address(from: Ipv4Addr, to: SocketAddrV4) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, TcpCongestion, &"reno".into())?;
    use std::os::fd::AsRawFd;
    bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0)))?;
    connect(socket.as_raw_fd(), &SockaddrIn::from(to))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Listens on the host's own address.
pub(crate) fn listen(relay: &Relay, host: u32) -> (TcpListener, u16) {
    let listener = TcpListener::bind((relay.bind_address(host), 0)).expect("own addresses are local");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
}

/// Binds a UDP socket of the host.
pub(crate) fn datagrams(relay: &Relay, host: u32) -> (UdpSocket, u16) {
    let socket = UdpSocket::bind((relay.bind_address(host), 0)).expect("own addresses are local");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
    let port = socket.local_addr().expect("it is bound").port();
    (socket, port)
}

/// Returns bytes with a period of 251, which makes missing or misplaced bytes visible.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Reads all data of a listener's first connection, on a separate thread. Also returns the time of
/// the last byte.
pub(crate) fn receive_all(listener: TcpListener) -> std::thread::JoinHandle<(Vec<u8>, std::time::Instant)> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection arrives");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("the sender closes");
        (bytes, std::time::Instant::now())
    })
}
