use std::time::Duration;

use samara_engine::{PeerIdentity, Topic};
use samara_gossipsub::rpc::{Control, ExchangedPeer, IHave, Partial, PartialMode, Prune, SubOpts};
use samara_lab::testing::{bytes, frames_survive};
use samara_sim::Postcard;

use super::*;

/// Frames of GossipSub with everything that a frame can have.
fn gossipsub_frames(message: Arc<Message>) -> [RpcFrame; 3] {
    let (topic, id) = (Topic::new("blocks"), MessageId::new(&[7; 20]));
    let change = SubOpts {
        subscribe: true,
        topic: topic.clone(),
        partial: PartialMode::Supports,
        unknown: Bytes::new(),
    };
    let peers = vec![ExchangedPeer { identity: bytes(38), signed_record: Some(bytes(90)) }];
    let control = Control {
        ihave: vec![IHave { topic: topic.clone(), ids: vec![id.clone(); 3] }],
        iwant: vec![id.clone()],
        graft: vec![topic.clone()],
        prune: vec![Prune { topic: topic.clone(), peers, backoff: Some(Duration::from_secs(60)) }],
        idontwant: vec![id],
        ..Control::default()
    };
    let partial = Partial { topic, group: bytes(41), body: Some(bytes(3_000)), metadata: Some(bytes(9)) };
    [
        RpcFrame::message(&message),
        RpcFrame::new(Rpc::default()),
        RpcFrame::new(Rpc {
            subscriptions: vec![change],
            publish: [message].into_iter().collect(),
            control: Some(Box::new(control)),
            partial: Some(Box::new(partial)),
            ..Rpc::default()
        }),
    ]
}

#[test]
fn frames_of_gossipsub_frames_survive() {
    let topic = Topic::new("blocks");
    frames_survive(&Wire, &gossipsub_frames(Message::with_author(topic, bytes(500), bytes(38), 9).into()));
}

fn floodsub_frames(message: Arc<samara_baselines::Message>) -> [samara_baselines::RpcFrame; 2] {
    let change = samara_baselines::SubOpts { subscribe: true, topic: message.topic().clone() };
    [samara_baselines::RpcFrame::Publish(message), samara_baselines::RpcFrame::Subscriptions([change].into())]
}

fn plumtree_frames(message: Arc<samara_baselines::Message>) -> [PlumtreeFrame; 6] {
    let (topic, id) = (message.topic().clone(), message.id());
    let change = samara_baselines::SubOpts { subscribe: false, topic: topic.clone() };
    let graft = |id| samara_baselines::Graft { topic: topic.clone(), id, round: 2 };
    let ihave = samara_baselines::IHave { topic: topic.clone(), messages: vec![(id, 1); 3] };
    [
        PlumtreeFrame::Gossip { message, round: 3 },
        PlumtreeFrame::IHave(ihave.into()),
        PlumtreeFrame::Graft(graft(Some(id)).into()),
        PlumtreeFrame::Graft(graft(None).into()),
        PlumtreeFrame::Prune(topic),
        PlumtreeFrame::Subscriptions([change].into()),
    ]
}

#[test]
fn frames_of_baselines_frames_survive() {
    let author = PeerIdentity::new(&[5; 38]);
    let message = Arc::new(samara_baselines::Message::new(author, 7, Topic::new("a"), bytes(300)));
    frames_survive(&Postcard, &floodsub_frames(Arc::clone(&message)));
    frames_survive(&Postcard, &plumtree_frames(message));
}
