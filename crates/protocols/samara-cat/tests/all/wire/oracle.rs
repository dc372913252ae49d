//! The codec compared with a generated one (`prost`), in both directions, for the messages of
//! celestia-core.

use proptest::prelude::*;
use prost::Message;
use samara_cat::wire::SeenTx;
use samara_cat::{CatFrame, TxKey};

use super::roundtrip::frame;
use super::{decoded, encoded};

#[derive(Clone, PartialEq, Message)]
struct Txs {
    #[prost(bytes = "vec", repeated, tag = "1")]
    txs: Vec<Vec<u8>>,
}

/// The format of 2026.
#[derive(Clone, PartialEq, Message)]
struct Seen {
    #[prost(bytes = "vec", tag = "1")]
    tx_key: Vec<u8>,
    #[prost(uint64, tag = "2")]
    sequence: u64,
    #[prost(bytes = "vec", tag = "3")]
    signer: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Want {
    #[prost(bytes = "vec", tag = "1")]
    tx_key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Sum {
    #[prost(message, tag = "1")]
    Txs(Txs),
    #[prost(message, tag = "2")]
    Seen(Seen),
    #[prost(message, tag = "3")]
    Want(Want),
}

#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(oneof = "Sum", tags = "1, 2, 3")]
    sum: Option<Sum>,
}

fn model(frame: &CatFrame) -> Option<Envelope> {
    let bytes = |key: &TxKey| key.as_bytes().to_vec();
    let sum = match frame {
        CatFrame::Tx(_) | CatFrame::Txs(_) => {
            Sum::Txs(Txs { txs: frame.bodies().iter().map(|tx| tx.bytes().to_vec()).collect() })
        }
        CatFrame::WantTx(key) => Sum::Want(Want { tx_key: bytes(key) }),
        CatFrame::SeenTx(seen) => {
            let SeenTx { key, details } = &**seen;
            let details = details.clone().unwrap_or_default();
            if details.from.is_some() {
                return None;
            }
            let signer = details.signer.map(|signer| signer.as_bytes().to_vec()).unwrap_or_default();
            Sum::Seen(Seen { tx_key: bytes(key), sequence: details.sequence, signer })
        }
        _ => return None,
    };
    Some(Envelope { sum: Some(sum) })
}

proptest! {
    #[test]
    fn both_codecs_agree(frame in frame()) {
        if let Some(model) = model(&frame) {
            let bytes = model.encode_to_vec();
            prop_assert_eq!(&bytes, &encoded(&frame));
            prop_assert_eq!(decoded(&bytes).unwrap(), frame);
            prop_assert_eq!(Envelope::decode(&bytes[..]).unwrap(), model);
        }
    }
}
