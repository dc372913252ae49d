//! The congestion window: NewReno as in RFC 9002 section 7 and appendix B.
//!
//! quic-go and quinn have CUBIC by default. The model of TCP here has NewReno, and the two should differ in nothing but what
//! makes QUIC another transport.

/// The least window, in full packets (kMinimumWindow, RFC 9002 section 7.2).
const MINIMUM_PACKETS: u64 = 2;

/// The window of one direction in bytes. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewReno {
    window: u64,
    threshold: u64,
    /// Packets that were sent until then belong to the loss that the window was reduced for.
    recovery_from: Option<u64>,
    datagram: u64,
    most: u64,
}

impl NewReno {
    /// `datagram` is the size of a full packet; the window stays between 2 of them and `most` bytes.
    pub(super) fn new(initial_packets: u32, datagram: u32, most: u64) -> Self {
        let datagram = u64::from(datagram);
        let window = u64::from(initial_packets) * datagram;
        Self { window, threshold: u64::MAX, recovery_from: None, datagram, most: most.max(window) }
    }

    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// The window in full packets.
    pub(super) fn packets(&self) -> f64 {
        self.window as f64 / self.datagram as f64
    }

    /// Whether another packet may join so many bytes. As quinn does, room for a full one is waited for.
    pub(super) const fn admits(&self, in_flight: u64) -> bool {
        in_flight + self.datagram <= self.window
    }

    /// Whether the window is what limits the sender, so that it may grow (RFC 9002 section 7.8), by the rule of quic-go
    /// (`isCwndLimited` in `internal/congestion/cubic_sender.go`): more than half of it is used in slow start, or all but
    /// three packets.
    pub(super) const fn limits(&self, in_flight: u64) -> bool {
        let slow_start = self.window < self.threshold;
        in_flight + 3 * self.datagram >= self.window || (slow_start && in_flight > self.window / 2)
    }

    /// A packet of `bytes` arrived (`OnPacketAcked`). The window grows if it was what limited the sender.
    pub(super) fn acknowledged(&mut self, bytes: u32, sent_at: u64, limited: bool) {
        if !limited || self.in_recovery(sent_at) {
            return;
        }
        self.window += if self.window < self.threshold {
            u64::from(bytes)
        } else {
            self.datagram * u64::from(bytes) / self.window
        };
        self.window = self.window.min(self.most);
    }

    /// Packets were lost, the last of which was sent at `sent_at` (`OnCongestionEvent`).
    pub(super) fn lost(&mut self, sent_at: u64, now: u64) {
        if self.in_recovery(sent_at) {
            return;
        }
        self.recovery_from = Some(now);
        self.threshold = (self.window / 2).max(MINIMUM_PACKETS * self.datagram);
        self.window = self.threshold;
    }

    /// Nothing arrived for so long that the path must be another one (RFC 9002 section 7.6).
    pub(super) fn collapse(&mut self) {
        self.window = MINIMUM_PACKETS * self.datagram;
        self.recovery_from = None;
    }

    fn in_recovery(&self, sent_at: u64) -> bool {
        self.recovery_from.is_some_and(|from| sent_at <= from)
    }
}
