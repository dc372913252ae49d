//! Nodes that claim to have every announced message.

use samara_engine::Context;
use samara_gossipsub::config::Lanes;
use samara_gossipsub::rpc::{Control, RpcFrame};
use samara_gossipsub::{Event, GossipSub};

/// Answers the announcements of a frame with IDONTWANT to all mesh peers. Returns the frame without
/// them: the engine must not request the messages.
pub(super) fn claim(engine: &GossipSub, frame: RpcFrame, cx: &mut Context<'_, RpcFrame, Event>) -> RpcFrame {
    let control = frame.rpc().control.as_ref();
    let Some(control) = control.filter(|control| !control.ihave.is_empty()) else { return frame };
    let config = engine.config();
    let lane = Lanes::of(config.sending.layout).urgent;
    for announced in &control.ihave {
        // Receivers process only a limited number of ids of one RPC.
        for ids in announced.ids.chunks(config.idontwant.ids_per_rpc_max) {
            let claim = RpcFrame::control(Control { idontwant: ids.to_vec(), ..Control::default() });
            for peer in engine.mesh_peers(&announced.topic) {
                let now = cx.now();
                // A claim that does not fit into a queue is lost, like those of other nodes.
                let _ = cx.outbox().owe(now, *peer, lane, claim.clone(), None, None);
            }
        }
    }
    let mut rest = frame.rpc().clone();
    if let Some(control) = &mut rest.control {
        control.ihave.clear();
    }
    RpcFrame::new(rest)
}
