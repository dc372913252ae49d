//! Tests of the payload check and of the times that work takes.

use super::*;

fn payload(round: u64, slot: u32) -> Outcome {
    let mut content = vec![0; 508];
    content[..8].copy_from_slice(&round.to_be_bytes());
    content[8..12].copy_from_slice(&slot.to_be_bytes());
    Outcome::Content(content.into())
}

#[test]
fn lost_duplicated_changed_and_foreign_payloads_are_wrong() {
    let right = [2, 0, 1].map(|slot| payload(7, slot));
    let whole = Checked::of(7, &right);
    assert_eq!((whole.wrong, whole.is_unmixed), (0, false));
    assert!(Checked::of(7, &[0, 1, 2].map(|slot| payload(7, slot))).is_unmixed);
    assert_ne!(Checked::of(7, &[0, 2, 1].map(|slot| payload(7, slot))).order, whole.order);
    let mut changed = vec![0; 508];
    changed[7] = 7;
    changed[400] = 1;
    for other in [
        Outcome::Void,
        Outcome::Unreadable,
        payload(7, 0),
        payload(7, 9),
        payload(8, 2),
        Outcome::Content(changed.into()),
    ] {
        let outcomes = [other.clone(), payload(7, 0), payload(7, 1)];
        assert_eq!(Checked::of(7, &outcomes).wrong, 1, "{other:?}");
    }
}
