//! Errors for configurations that cannot be simulated.

use std::time::Duration;

use crate::common::*;
use samara_engine::outbox::{Dispatch, Lane};
use samara_sim::{
    Connection, Flush, Framing, GatewayConfig, Http2Config, Latency, MConnectionConfig, QuicConfig,
    SimConfig, Simulation, TcpConfig, Transport, Window,
};

/// Returns the error for two hosts of this configuration, of which this process simulates some.
fn refused_of(config: SimConfig, dispatch: Dispatch, lanes: usize, local: std::ops::Range<u32>) -> String {
    let sim = Simulation::with_local_hosts(config, hosts(2, MBIT), talkers(dispatch, lanes), local);
    sim.map(|_| ()).expect_err("this must not be accepted").to_string()
}

fn refused(config: SimConfig) -> String {
    refused_of(config, Dispatch::PerLink, 2, 0..2)
}

fn of_transport(transport: Transport) -> String {
    refused(config(5, transport))
}

#[test]
fn channels_need_tcp_or_ideal_and_valid_values() {
    let tcp = Some(TcpConfig::default());
    let changed = |change: fn(&mut MConnectionConfig)| {
        let mut config = channels(Flush::WhenIdle);
        change(&mut config);
        config
    };
    let plain = || over(tcp, changed(|_| {}));
    let quic = Transport { connection: plain().connection, ..Transport::quic() };
    assert_eq!(
        of_transport(quic),
        "connections with channels are streams of bytes of their own; use tcp or ideal"
    );
    assert_eq!(
        of_transport(Transport { framing: Framing::NOISE_YAMUX, ..plain() }),
        "a connection with channels frames its packets itself; the framing must be plain"
    );
    assert_eq!(
        of_transport(over(None, changed(|config| config.receive_rate = 1))),
        "the ideal transport has no receive window to close; use tcp, or no limit on the receive rate"
    );
    type Change = fn(&mut MConnectionConfig);
    let changes: [(Change, &str); 5] = [
        (
            |config| config.flush = Flush::Throttle(Duration::ZERO),
            "the flush interval is 0; use a flush when idle",
        ),
        (|config| config.channels[1].queue = 0, "channel 0x31: priority and queue must be at least 1"),
        (|config| config.channels[0].priority = 0, "channel 0x30: priority and queue must be at least 1"),
        (|config| config.channels[1].id = 0x30, "duplicate channel 0x30"),
        (
            |config| config.channels[1].lanes.push(Lane(0)),
            "lane 0 belongs to 2 channels; it must belong to exactly one",
        ),
    ];
    for (change, message) in changes {
        assert_eq!(of_transport(over(tcp, changed(change))), message);
    }
    let of_outbox = |dispatch, lanes| refused_of(config(5, plain()), dispatch, lanes, 0..2);
    assert_eq!(
        of_outbox(Dispatch::Node, 2),
        "connections with channels take copies per link; use per-link dispatch"
    );
    assert_eq!(
        of_outbox(Dispatch::PerLink, 3),
        "lane 2 belongs to 0 channels; it must belong to exactly one"
    );
}

#[test]
fn http2_needs_a_stream_of_bytes_and_a_window() {
    let connection = Connection::Http2(Http2Config::default());
    let quic = Transport { connection: connection.clone(), ..bare_quic(QuicConfig::of(1452)) };
    assert_eq!(of_transport(quic), "HTTP/2 is one stream of bytes; use tcp or ideal");
    assert_eq!(
        of_transport(Transport { connection, ..Transport::tcp() }),
        "HTTP/2 frames messages itself; the framing must be plain"
    );
    assert_eq!(
        of_transport(Transport::grpc(Http2Config { window: Window::Fixed { bytes: 0 } })),
        "the window of HTTP/2 is 0 bytes; it must be at least 1"
    );
}

/// Returns two regions with a gateway each.
fn gateways(far_ms: u64) -> SimConfig {
    let mut config = config(10, bare(None));
    let (near, far) = (Duration::from_millis(10), Duration::from_millis(far_ms));
    config.network.latency = Latency::Regions(vec![vec![near, far], vec![far, near]]);
    let gateway = GatewayConfig { up_bps: MBIT, down_bps: MBIT, queue: config.downlink_queue };
    config.network.gateways = vec![gateway; 2];
    config
}

#[test]
fn gateways_need_all_regions_positive_rates_and_long_latencies() {
    let mut config = gateways(90);
    config.network.gateways.pop();
    assert_eq!(
        refused(config),
        "there are 1 gateways for 2 regions; every region needs one, or none has one"
    );
    let mut config = gateways(90);
    config.network.gateways[1].down_bps = 0;
    assert_eq!(refused(config), "the gateway of region 1: the rate in is 0 bit/s; it must be positive");
    assert_eq!(
        refused(gateways(29)),
        "from region 0 to region 1 the latency is 29ms; with gateways it must be at least three times the least \
         latency of the network, 10ms"
    );
}

#[test]
fn rejects_gateways_and_layers_with_several_processes() {
    let refused = |config, local| refused_of(config, Dispatch::PerLink, 1, local);
    assert_eq!(
        refused(gateways(90), 0..1),
        "gateways cannot be simulated in several processes; use one process"
    );
    let grpc = config(1, Transport::grpc(Http2Config::default()));
    assert_eq!(
        refused(grpc, 0..1),
        "connections with channels, or HTTP/2, cannot be simulated in several processes; use one process"
    );
    assert_eq!(refused(config(1, bare(None)), 1..1), "a process has no hosts; use fewer processes");
}
