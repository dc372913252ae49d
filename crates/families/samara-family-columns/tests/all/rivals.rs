//! Nodes beside others that use their uplink.

use samara_family_columns::ColumnsData;

use crate::{loaded, outcomes};

#[test]
fn uploads_and_nodes_get_two_fifths_of_the_uplink_each() {
    let uploads = loaded("rivals", &[], &["upload", "upload-quic"], None);
    for outcome in outcomes::<ColumnsData>(&uploads, 1) {
        let upload = &outcome.run.rivals[0];
        assert!(upload.share >= 0.4 && upload.node_share >= 0.4, "{}: {upload:?}", outcome.run.name);
    }
}

/// Both follow their delays. The links of the second node have other latencies than those of the first.
#[test]
fn each_of_two_nodes_gets_over_a_third_of_the_uplink() {
    let nodes = loaded("rivals", &[], &["node", "node-quic"], None);
    for outcome in outcomes::<ColumnsData>(&nodes, 1) {
        let second = &outcome.run.rivals[0];
        let (name, shares) = (&outcome.run.name, [second.share, second.node_share]);
        assert_eq!((second.kind, second.lost), ("node", 0), "{name}: {second:?}");
        assert!(shares.iter().all(|share| *share > 0.35), "{name}: {second:?}");
        assert!(shares.iter().sum::<f64>() > 0.97, "{name}: {second:?}");
    }
}

/// Two limits add up to twice the delay of one. Without them, the queue takes half a second.
#[test]
fn calls_beside_two_nodes_wait_at_most_60_ms_longer() {
    let fault = |kind: &str| format!("{{ kind = \"{kind}\", at = \"15 s\", until = \"45 s\", nodes = [0] }}");
    let faults = format!("[{}, {}]", fault("node"), fault("call"));
    let nodes = loaded("rivals", &[("fault", &faults)], &["upload", "upload-quic"], Some(1));
    for outcome in outcomes::<ColumnsData>(&nodes, 1) {
        let call = outcome.run.rivals.iter().find(|rival| rival.kind == "call").expect("a call");
        let delay = call.delay_ms.expect("packets of the call should arrive");
        assert!(delay.p95 <= 60.0 && call.lost == 0, "{}: {call:?}", outcome.run.name);
    }
}

#[test]
fn calls_wait_at_most_30_ms_longer() {
    let calls = loaded("rivals", &[], &["call", "call-quic"], None);
    for outcome in outcomes::<ColumnsData>(&calls, 1) {
        let call = &outcome.run.rivals[0];
        let delay = call.delay_ms.expect("packets of the call should arrive");
        assert!(delay.p95 <= 30.0 && call.node_share > 0.8, "{}: {call:?}", outcome.run.name);
    }
}
