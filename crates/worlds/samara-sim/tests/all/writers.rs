//! Urgent copies and others that a host owes at the same moment: when the writers of its links run.

use std::sync::Arc;

use crate::common::{Blob, MBIT, bare, config, hosts};
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Input, Outbox, PeerId, Time};
use samara_sim::{NicDiscipline, SimConfig, Simulation, TcpConfig, Transport, Writers};

const URGENT: u64 = 1;
const DATA: u64 = 2;

/// Announces what comes to its other links, and passes it on.
#[derive(Default)]
struct Relay {
    peers: Vec<PeerId>,
}

impl Relay {
    fn pass_on(&self, but: Option<PeerId>, cx: &mut Context<'_, Blob, u64>) {
        let now = cx.now();
        for (lane, id, len) in [(Lane(0), URGENT, 100), (Lane(1), DATA, 10_000)] {
            for peer in self.peers.iter().filter(|peer| Some(**peer) != but) {
                let blob = Blob { id, len, route: Arc::default() };
                cx.outbox().owe(now, *peer, lane, blob, None, None).unwrap();
            }
        }
    }
}

impl Engine for Relay {
    type Frame = Blob;
    type Command = ();
    type Event = u64;

    fn handle(&mut self, input: Input<Blob, ()>, cx: &mut Context<'_, Blob, u64>) {
        match input {
            Input::LinkUp { peer, .. } => self.peers.push(peer),
            Input::Frame { frame, .. } if frame.id == URGENT => cx.emit(URGENT),
            Input::Frame { peer, .. } => self.pass_on(Some(peer), cx),
            Input::Command(()) => self.pass_on(None, cx),
            _ => {}
        }
    }
}

/// Returns the times at which the announcements of host 1 arrive, in milliseconds after its first one.
/// Either host 0 passes data to it, or its application requests a publication.
fn announced(writers: Writers, published: bool) -> Vec<f64> {
    let tcp = TcpConfig { initial_window: 1000, ..TcpConfig::default() };
    let transport = Transport { writers, ..bare(Some(tcp)) };
    let config = SimConfig { nic: NicDiscipline::Fifo, ..config(50, transport) };
    let lanes = vec![LaneConfig::unbounded("urgent", 0), LaneConfig::unbounded("data", 1)];
    let outbox = OutboxConfig { dispatch: Dispatch::PerLink, lanes };
    let relay = move |_| (Relay::default(), Outbox::new(outbox.clone()));
    // Data take 10 ms on the uplink, and announcements 0.1 ms.
    let mut sim = Simulation::new(config, hosts(5, 8 * MBIT), Arc::new(relay)).unwrap();
    [0, 2, 3, 4].into_iter().for_each(|host| sim.establish(Time::ZERO, 1, host));
    sim.command(Time::from_secs(1), u32::from(published), ());
    let mut times = Vec::new();
    sim.run_until(Time::from_secs(5), |record| {
        if record.host > 1 {
            times.push(record.at.as_millis_f64());
        }
    });
    let first = times[0];
    times.iter().map(|at| ((at - first) * 10.0).round() / 10.0).collect()
}

#[test]
fn announcements_wait_for_data_of_other_links_if_writers_run_in_turn() {
    assert_eq!(announced(Writers::AtOnce, false), [0.0, 0.1, 0.2]);
    // One announcement and the data of the link before, each.
    assert_eq!(announced(Writers::InTurn, false), [0.0, 10.1, 20.2]);
}

/// An application announces what it publishes before it publishes it.
#[test]
fn announcements_of_a_publisher_go_first() {
    for writers in [Writers::AtOnce, Writers::InTurn] {
        assert_eq!(announced(writers, true), [0.0, 0.1, 0.2], "{writers:?}");
    }
}
