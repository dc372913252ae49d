//! Curves in few characters.

mod common;

use proptest::prelude::*;
use samara_report::encode::{DecodeError, QUANTUM_MS, decode, encode};
use samara_report::model::StepCurve;

fn curves() -> impl Strategy<Value = Vec<StepCurve>> {
    let arrivals = prop::collection::vec(0.0..1e7, 0..40);
    let curve = (any::<u32>(), 0..60u32, arrivals);
    prop::collection::vec(
        curve.prop_map(|(number, of, arrivals_ms)| StepCurve { number, of, arrivals_ms }),
        0..20,
    )
}

proptest! {
    #[test]
    fn curves_come_back_sorted_and_rounded(curves in curves()) {
        let decoded = decode(&encode(&curves)).expect("what was encoded can be decoded");
        prop_assert_eq!(decoded.len(), curves.len());
        for (decoded, curve) in decoded.iter().zip(&curves) {
            prop_assert_eq!((decoded.number, decoded.of), (curve.number, curve.of));
            let sorted = curve.sorted();
            prop_assert_eq!(decoded.arrivals_ms.len(), sorted.len());
            prop_assert!(decoded.arrivals_ms.is_sorted());
            for (decoded, exact) in decoded.arrivals_ms.iter().zip(&sorted) {
                prop_assert!((decoded - exact).abs() <= QUANTUM_MS * 0.501);
            }
        }
    }

    #[test]
    fn decoding_never_panics(text in "[A-Za-z0-9+/=]{0,80}") {
        let _ = decode(&text);
    }
}

#[test]
fn what_is_no_arrival_is_left_out() {
    let curve = common::curve(7, 3, &[f64::NAN, 5.0, -2.0, f64::INFINITY, 1.0, 9.0, 4.0]);
    let decoded = decode(&encode(&[curve])).expect("it can be decoded");
    assert_eq!(decoded.len(), 1);
    let arrivals: Vec<f64> = decoded[0].arrivals_ms.iter().map(|at| at.round()).collect();
    assert_eq!(arrivals, [1.0, 4.0, 5.0], "no more than make it complete");
}

#[test]
fn what_is_not_encoded_is_refused() {
    assert_eq!(decode("?"), Err(DecodeError::Base64));
    // A curve whose second arrival is missing.
    assert_eq!(decode("AQICBQ=="), Err(DecodeError::Truncated));
    // Ten bytes of ones are more than 64 bits.
    assert_eq!(decode("/////////////w=="), Err(DecodeError::Overflow));
}
