//! Tests of the kernel's own TCP and UDP over emulated links. They are skipped, with the reason,
//! where no device can be created.
#![cfg(target_os = "linux")]

mod common;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use samara_emulation::{EmulationConfig, HostCounters, Relay, RelayConfig, RelayError, RelayReport, Subnets};

const MBIT: u64 = 1_000_000;
const MS: Duration = Duration::from_millis(1);

fn config(hosts: usize, rate_bps: u64, latency: Duration) -> RelayConfig {
    RelayConfig::new(EmulationConfig::uniform(hosts, rate_bps, latency))
}

/// Sends `len` bytes from host 0 to host 1. Returns the time from the first write to the last read.
fn transfer(relay: &Relay, len: usize) -> Duration {
    let (listener, port) = listen(relay, 1);
    let receiver = receive_all(listener);
    let mut stream = dial(relay, 0, 1, port).unwrap();
    assert_eq!(stream.peer_addr().unwrap().ip(), relay.dial_address(0, 1));
    let sent = pattern(len);
    let start = Instant::now();
    stream.write_all(&sent).unwrap();
    drop(stream);
    let (bytes, end) = receiver.join().unwrap();
    assert!(bytes == sent, "found {} bytes, expected {len} bytes with the sent content", bytes.len());
    end - start
}

/// Returns a report once no packet is in flight: closed connections exchange their last packets
/// after the last byte.
fn settled(relay: &mut Relay) -> RelayReport {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < TIMEOUT, "packets are still in flight");
        let report = relay.report().unwrap();
        let sum = |packets: fn(&HostCounters) -> u64| report.hosts.iter().map(packets).sum::<u64>();
        if sum(|host| host.sent.packets) == sum(|host| host.received.packets + host.drops.total().packets) {
            return report;
        }
        std::thread::sleep(10 * MS);
    }
}

#[test]
fn a_tcp_transfer_takes_the_time_of_rate_and_latency() {
    let Some(mut relay) = start(config(2, 20 * MBIT, 50 * MS)) else { return };
    let len = 2 << 20;
    let took = transfer(&relay, len);
    // Each packet carries at most 1,460 bytes and at least 40 of headers; the latency follows.
    let wire_bits = (len + len.div_ceil(1460) * 40) as f64 * 8.0;
    let least = Duration::from_secs_f64(wire_bits / 20e6) + 50 * MS;
    assert!(took >= least, "{took:?} is less than {least:?}");
    let report = settled(&mut relay);
    let doubts = report.doubts();
    // Slow start costs about five round trips of 100 ms. A relay that could not keep up proves
    // nothing.
    assert!(took < 3 * least || !doubts.is_empty(), "{took:?} is much more than {least:?}");
    assert!(report.hosts[0].sent.bytes as usize > len);
    assert!(
        report.hosts[0].sent.bytes / report.hosts[0].sent.packets <= 1500,
        "the kernel cuts segments itself"
    );
    assert!(report.hosts[1].received.packets > (len / 1460) as u64);
    assert_eq!(report.unrouted.unknown_host.packets, 0);
}

#[test]
fn a_datagram_takes_the_latency_each_way() {
    let Some(relay) = start(config(3, 20 * MBIT, 25 * MS)) else { return };
    let ((one, _), (two, port)) = (datagrams(&relay, 0), datagrams(&relay, 2));
    let mut buffer = [0; 2000];
    for round in 0..10u8 {
        let start = Instant::now();
        let body = [round; 700];
        one.send_to(&body, (relay.dial_address(0, 2), port)).unwrap();
        let (len, from) = two.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from.ip()), (&body[..], relay.dial_address(2, 0).into()));
        assert!(start.elapsed() >= 25 * MS);
        two.send_to(&buffer[..len], from).unwrap();
        let (len, from) = one.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from.ip()), (&body[..], relay.dial_address(0, 2).into()));
        assert!(start.elapsed() >= 50 * MS, "{:?}", start.elapsed());
    }
}

#[test]
fn a_large_datagram_is_fragmented_and_reassembled() {
    let Some(mut relay) = start(config(2, 100 * MBIT, 5 * MS)) else { return };
    let ((one, _), (two, port)) = (datagrams(&relay, 0), datagrams(&relay, 1));
    let body = pattern(20_000);
    one.send_to(&body, (relay.dial_address(0, 1), port)).unwrap();
    let mut buffer = vec![0; 65_535];
    let (len, _) = two.recv_from(&mut buffer).unwrap();
    assert!(buffer[..len] == body);
    assert_eq!(relay.report().unwrap().hosts[1].received.packets, 14);
}

#[test]
fn tcp_repairs_losses() {
    let emulation = EmulationConfig { loss: 0.01, ..EmulationConfig::uniform(2, 50 * MBIT, 5 * MS) };
    let Some(mut relay) = start(RelayConfig::new(emulation)) else { return };
    transfer(&relay, 2 << 20);
    let report = settled(&mut relay);
    assert!(report.hosts[0].drops.random.packets > 0);
    assert!(report.hosts[0].received.bytes + report.hosts[1].received.bytes > 2 << 20);
}

#[test]
fn two_relays_do_not_disturb_each_other() {
    let Some(mut one) = start(config(2, 50 * MBIT, 5 * MS)) else { return };
    let Some(mut two) = start(config(2, 50 * MBIT, 20 * MS)) else { return };
    assert_ne!(one.device(), two.device());
    let own = one.subnets().own().0;
    assert_ne!(two.subnets().own().0, own);
    std::thread::scope(|scope| {
        scope.spawn(|| transfer(&one, 1 << 20));
        scope.spawn(|| transfer(&two, 1 << 20));
    });
    for relay in [&mut one, &mut two] {
        let report = settled(relay);
        assert!(report.hosts[0].sent.bytes > 1 << 20);
        assert!(report.hosts[0].sent.bytes < 2 << 20);
    }
    // The addresses of one relay are unknown to the other, and no second relay can use them.
    let given = RelayConfig { subnets: Some(*one.subnets()), ..config(2, MBIT, MS) };
    let refused = Relay::start(given).unwrap_err();
    assert!(matches!(refused, RelayError::SubnetsTaken(_)), "{refused}");
    assert!(refused.to_string().contains(&own.to_string()), "{refused}");
}

/// Sockets of the hosts of one relay may still repeat packets when the next one starts.
#[test]
fn the_next_relay_of_a_process_has_other_addresses() {
    let Some(one) = start(config(2, MBIT, MS)) else { return };
    let own = one.subnets().own().0;
    drop(one);
    let Some(next) = start(config(2, MBIT, MS)) else { return };
    assert_ne!(next.subnets().own().0, own);
}

#[test]
fn a_closed_port_is_reported_to_the_sender() {
    let Some(relay) = start(config(2, 50 * MBIT, 5 * MS)) else { return };
    let (one, _) = datagrams(&relay, 0);
    let closed = datagrams(&relay, 1).1;
    one.connect((relay.dial_address(0, 1), closed)).unwrap();
    one.send(b"anybody there?").unwrap();
    // The kernel matches the packet that the ICMP error quotes with the socket.
    let error = one.recv(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    let (listener, port) = listen(&relay, 1);
    drop(listener);
    let error = dial(&relay, 0, 1, port).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn packets_of_no_host_are_counted_and_named() {
    let Some(mut relay) = start(config(2, 50 * MBIT, 5 * MS)) else { return };
    // Host 7 has an address, but is not in the network.
    let stranger = UdpSocket::bind((relay.subnets().bind_address(7), 0)).unwrap();
    stranger.send_to(b"hello", (relay.dial_address(0, 1), 9)).unwrap();
    let report = loop {
        let report = relay.report().unwrap();
        if report.unrouted.unknown_host.packets > 0 {
            break report;
        }
        std::thread::sleep(MS);
    };
    let addresses = (relay.subnets().bind_address(7), relay.dial_address(0, 1));
    assert_eq!(report.unrouted.first_unknown, Some(addresses));
    let doubts = report.doubts();
    assert!(doubts.iter().any(|doubt| doubt.contains(&addresses.0.to_string())), "{doubts:?}");
}

#[test]
fn unbound_sockets_dial_from_the_address_of_their_host() {
    let Some(mut relay) = start(config(4, 50 * MBIT, 5 * MS)) else { return };
    for (from, to) in [(0, 1), (1, 0), (2, 3), (3, 3)] {
        let (listener, port) = listen(&relay, to);
        // Unbound, and bound to a port only, like libp2p when it reuses its listening port.
        let by_port = SocketAddrV4::new(relay.dial_address(from, to), port);
        let unbound = TcpStream::connect_timeout(&by_port.into(), TIMEOUT / 4).unwrap();
        let port_only = dial_address(Ipv4Addr::UNSPECIFIED, by_port).unwrap();
        for stream in [unbound, port_only] {
            assert_eq!(stream.local_addr().unwrap().ip(), relay.bind_address(from));
            assert_eq!(listener.accept().unwrap().1.ip(), relay.dial_address(to, from));
        }
        let (socket, port) = datagrams(&relay, to);
        let unbound = UdpSocket::bind("0.0.0.0:0").unwrap();
        unbound.send_to(b"hi", (relay.dial_address(from, to), port)).unwrap();
        assert_eq!(socket.recv_from(&mut [0; 9]).unwrap().1.ip(), relay.dial_address(to, from));
    }
    assert_eq!(relay.report().unwrap().unrouted.unknown_host.packets, 0);
}

#[test]
fn supports_as_many_hosts_as_addresses() {
    let Some(relay) = start(config(254, 50 * MBIT, 5 * MS)) else { return };
    let ((one, _), (two, port)) = (datagrams(&relay, 253), datagrams(&relay, 0));
    one.send_to(b"hello", (relay.dial_address(253, 0), port)).unwrap();
    assert_eq!(two.recv_from(&mut [0; 9]).unwrap().1.ip(), relay.dial_address(0, 253));
    drop(relay);
    let error = Relay::start(config(255, 50 * MBIT, 5 * MS)).unwrap_err().to_string();
    assert!(error.contains("found 255, expected at most 254"), "{error}");
}

#[test]
fn a_burst_beyond_the_uplink_queue_is_dropped_and_counted() {
    let mut emulation = EmulationConfig::uniform(2, MBIT, 5 * MS);
    emulation.uplink_queue.flow_bytes = 10_000;
    let Some(mut relay) = start(RelayConfig::new(emulation)) else { return };
    let ((one, _), (_two, port)) = (datagrams(&relay, 0), datagrams(&relay, 1));
    // 100 packets of 1,028 bytes at 1 Mbit/s would take 0.8 s. Nine fit into the queue.
    for _ in 0..100 {
        one.send_to(&[0; 1000], (relay.dial_address(0, 1), port)).unwrap();
    }
    let report = settled(&mut relay);
    let host = &report.hosts[0];
    assert_eq!(host.sent.packets, 100);
    assert!(host.drops.uplink_full.packets > 50, "{host:?}");
    assert_eq!(host.drops.uplink_full.packets + report.hosts[1].received.packets, 100);
}

/// Before an interface of the host, TCP keeps data in the socket; behind it, the window lets out
/// as much as it allows.
#[test]
fn an_interface_holds_data_back_in_the_socket() {
    let waited = |interface: bool| {
        let mut config = config(2, 20 * MBIT, 50 * MS);
        config.emulation.hosts[0].uplink_bps = 5 * MBIT;
        let mut relay = start(RelayConfig { interface, ..config })?;
        let took = transfer(&relay, 1 << 20);
        let report = settled(&mut relay);
        assert_eq!(report.interface.is_some(), interface);
        if let Some(Err(reason)) = &report.interface {
            eprintln!("SKIPPED: {reason}");
            return None;
        }
        // 1 MiB at 5 Mbit/s takes 1.68 s with headers.
        assert!(took > Duration::from_millis(1_700), "{took:?}");
        Some((report.hosts[0].uplink_wait_max, report.doubts()))
    };
    let (Some((behind, _)), Some((before, doubts))) = (waited(false), waited(true)) else { return };
    assert!(behind > 100 * MS, "{behind:?}");
    assert!(before < 50 * MS || !doubts.is_empty(), "{before:?}");
}

/// Returns a configuration with a pair of subnets beyond the candidates, which no other test uses.
fn config_in(pair: u8) -> RelayConfig {
    let own = 250 + 2 * pair;
    let subnets = Subnets::new([10, own, 0, 0].into(), [10, own + 1, 0, 0].into()).unwrap();
    RelayConfig { subnets: Some(subnets), ..config(2, 50 * MBIT, 5 * MS) }
}

#[test]
fn nothing_is_left_behind() {
    let Some(relay) = start(config_in(0)) else { return };
    let device = Path::new("/sys/class/net").join(relay.device());
    let own = relay.bind_address(0);
    assert!(device.exists() && UdpSocket::bind((own, 0)).is_ok());
    drop(relay);
    assert!(UdpSocket::bind((own, 0)).is_err());
    // The same addresses are free again.
    Relay::start(config_in(0)).unwrap();
}

/// The body of the process to kill: [`nothing_is_left_behind_by_a_killed_process`] starts itself
/// once more.
fn wait_to_be_killed() {
    let relay = Relay::start(config_in(1)).unwrap();
    println!("\ndevice {} {}", relay.device(), relay.bind_address(0));
    std::thread::sleep(TIMEOUT);
}

#[test]
fn nothing_is_left_behind_by_a_killed_process() {
    use std::io::BufRead;

    if std::env::var_os("SAMARA_TEST_WAIT_TO_BE_KILLED").is_some() {
        return wait_to_be_killed();
    }
    if let Err(reason) = samara_emulation::availability() {
        eprintln!("SKIPPED: {reason}");
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nothing_is_left_behind_by_a_killed_process", "--nocapture"])
        .env("SAMARA_TEST_WAIT_TO_BE_KILLED", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("device ")?.to_owned()));
    let line = line.expect("the child starts a relay");
    let (name, own) = line.split_once(' ').unwrap();
    let own: Ipv4Addr = own.parse().unwrap();
    let device = Path::new("/sys/class/net").join(name);
    assert!(device.exists() && UdpSocket::bind((own, 0)).is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(UdpSocket::bind((own, 0)).is_err());
}

#[test]
fn the_error_names_what_is_missing() {
    let missing = RelayConfig { tun_file: "/nonexistent/tun".into(), ..config(2, MBIT, MS) };
    let error = Relay::start(missing).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/tun: not found") && error.contains("modprobe tun"), "{error}");
}
