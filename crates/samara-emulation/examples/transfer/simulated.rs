//! The same transfer in the simulator.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Frame, Input, Outbox, PeerId, Time};
use samara_sim::{
    DownlinkQueue, Framing, HostConfig, Network, NicDiscipline, Record, SimConfig, Simulation, TcpConfig,
    Transport,
};

use crate::linux::{Case, HEADER, MSS};

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

/// Sends a blob to all its peers when told so, and tells when one arrives.
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
                    // A refusal shows: nothing is heard at the other end.
                    let _ = cx.outbox().owe(now, *peer, Lane(0), Blob(bytes), None, None);
                }
            }
            _ => (),
        }
    }
}

/// From the command to the last arrival.
pub(crate) fn transfer(case: &Case) -> Result<Duration, Box<dyn Error>> {
    let config = SimConfig {
        seed: 1,
        threads: 1,
        network: Network::uniform(case.latency),
        transport: Transport {
            mss: MSS,
            header: HEADER,
            framing: Framing::PLAIN,
            tcp: Some(TcpConfig::default()),
            ..Transport::tcp()
        },
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
    let mut sim = Simulation::new(config, vec![host; case.receivers as usize + 1], factory)?;
    let start = Time::from_secs(5);
    (1..=case.receivers).for_each(|receiver| sim.establish(Time::ZERO, 0, receiver));
    sim.command(start, 0, case.bytes);
    let mut arrivals = Vec::new();
    sim.run_until(start + Duration::from_secs(600), |record: Record<()>| arrivals.push(record.at));
    if arrivals.len() != case.receivers as usize {
        return Err(
            format!("{} of {} transfers ended in the simulator", arrivals.len(), case.receivers).into()
        );
    }
    Ok(arrivals.into_iter().max().unwrap_or(start).since(start))
}
