//! Broken invariants, planted in the state of a member.

use samara_engine::testing::{Single, identity_of};

use super::*;

fn member() -> Single<Ring> {
    let config = Config::default();
    let outbox = Outbox::new(config.outbox());
    Single::start(Ring::new(config, identity_of(0)).expect("a valid configuration"), outbox, 1)
}

#[test]
#[should_panic(expected = "views go back")]
fn a_view_that_goes_back_is_found() {
    let view = |counter| ViewId { counter, proposer: 0 };
    member().with(|ring, _| ring.former.extend([view(1), view(2)]));
}

#[test]
#[should_panic(expected = "bytes of early data")]
fn a_wrong_sum_of_early_data_is_found() {
    member().with(|ring, _| ring.early_bytes += 1);
}
