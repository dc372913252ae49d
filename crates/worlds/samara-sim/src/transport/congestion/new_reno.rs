//! NewReno (RFC 5681, RFC 6582; RFC 9002 section 7 and appendix B).

use super::{Controller, Window};

/// One more packet in each round trip, half after a loss (kLossReductionFactor).
#[derive(Debug)]
pub(crate) struct NewReno;

impl Controller for NewReno {
    fn on_ack(&mut self, window: &mut Window, acked: f64, _now: u64) {
        if window.is_slow_start() {
            window.slow_start(acked);
        } else {
            window.avoid_congestion(acked);
        }
    }

    fn on_congestion_event(&mut self, window: &mut Window, flight: f64) {
        window.lower_threshold((flight / 2.0).floor());
    }
}
