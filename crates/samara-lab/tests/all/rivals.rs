//! Nodes beside others that use their uplink.

use samara_lab::results::ColumnsData;

use crate::{loaded, outcomes};

#[test]
fn uploads_and_nodes_get_two_fifths_of_the_uplink_each() {
    let uploads = loaded("rivals", &[], &["upload", "upload-quic"], None);
    for outcome in outcomes::<ColumnsData>(&uploads, 1) {
        let upload = &outcome.run.rivals[0];
        assert!(upload.share >= 0.4 && upload.node_share >= 0.4, "{}: {upload:?}", outcome.run.name);
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
