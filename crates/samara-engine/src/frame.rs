//! What travels over a link.

/// A unit that one engine hands to another over a link.
///
/// The simulator moves frames as typed values and never encodes them; only real sockets do. Cloning must be cheap (an
/// `Arc` inside): a frame that is owed to eight peers is one value.
pub trait Frame: Clone + Send + Sync + 'static {
    /// Bytes of the encoded frame, with its own length prefix but without whatever the transport adds. Must equal the
    /// length of the real encoding; every engine tests that.
    fn encoded_len(&self) -> usize;

    /// How many of these bytes are application payload; the rest is control traffic.
    fn payload_len(&self) -> usize;
}
