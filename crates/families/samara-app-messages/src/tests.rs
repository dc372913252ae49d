use samara_lab::testing::survives;

use super::*;

#[test]
fn commands_events_and_counters_come_back() {
    assert_eq!(survives(&Publish(7)), "7");
    survives(&Event::Delivered { message: 1, from: u32::MAX });
    survives(&Event::Lost { to: 1 });
    survives(&Counts { duplicates_received: u64::MAX, mesh: 8, ..Counts::default() });
}
