//! The same transfer in the simulator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Frame, Input, Outbox, PeerId, Time};
use samara_sim::{
    DownlinkQueue, Framing, HostConfig, Network, NicDiscipline, Record, SimConfig, Simulation, Transport,
};

use crate::linux::{Case, Failure, HEADER, MSS};

#[derive(Clone, Debug)]
struct Blob(usize);

impl Frame for Blob {
    fn encoded_len(&self) -> usize {
        self.0
    }

    fn payload_len(&self) -> usize {
        self.0
    }
}

/// Sends a blob to all its peers on command, and reports when one arrives.
#[derive(Default)]
struct Node {
    peers: Vec<PeerId>,
}

impl Engine for Node {
    type Frame = Blob;
    type Command = usize;
    type Event = ();

    fn handle(&mut self, input: Input<Blob, usize>, cx: &mut Context<'_, Blob, ()>) {
        match input {
            Input::LinkUp { peer, .. } => self.peers.push(peer),
            Input::Frame { .. } => cx.emit(()),
            Input::Command(bytes) => {
                let now = cx.now();
                for peer in &self.peers {
                    // A refused frame never arrives, which the result shows.
                    let _ = cx.outbox().owe(now, *peer, Lane(0), Blob(bytes), None, None);
                }
            }
            _ => (),
        }
    }
}

/// TCP with the kernel's segment size, and no framing above it.
pub(crate) fn tcp() -> Transport {
    Transport { mss: MSS, header: HEADER, framing: Framing::PLAIN, ..Transport::tcp() }
}

/// Returns the time from the command to the arrival, for each pair.
pub(crate) fn transfer(case: &Case, transport: &Transport, seed: u64) -> Result<Vec<Duration>, Failure> {
    let config = SimConfig {
        seed,
        threads: 1,
        network: Network { loss: case.loss, ..Network::uniform(case.latency) },
        transport: transport.clone(),
        nic: NicDiscipline::RoundRobin,
        downlink_queue: DownlinkQueue::default(),
    };
    let host = HostConfig { uplink_bps: case.rate_bps, downlink_bps: case.rate_bps, region: 0 };
    let factory = Arc::new(|_| {
        (
            Node::default(),
            Outbox::new(OutboxConfig {
                dispatch: Dispatch::PerLink,
                lanes: vec![LaneConfig::unbounded("data", 0)],
            }),
        )
    });
    let mut sim = Simulation::new(config, vec![host; case.hosts() as usize], factory)?;
    let start = Time::from_secs(5);
    case.pairs.iter().for_each(|(from, to)| sim.establish(Time::ZERO, *from, *to));
    let senders: BTreeSet<u32> = case.pairs.iter().map(|(from, _)| *from).collect();
    senders.into_iter().for_each(|sender| sim.command(start, sender, case.bytes));
    let mut times = Vec::new();
    sim.run_until(start + Duration::from_secs(600), |record: Record<()>| times.push(record.at.since(start)));
    if times.len() != case.pairs.len() {
        return Err(
            format!("{} of {} transfers ended in the simulator", times.len(), case.pairs.len()).into()
        );
    }
    Ok(times)
}
