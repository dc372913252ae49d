//! `TCP_INFO` of Linux (`struct tcp_info` in `include/uapi/linux/tcp.h`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::transport::Reading;

/// The part of `struct tcp_info` that is read. Older kernels fill less of it.
const LEN: usize = 232;
/// The fields that Linux 4.9 fills, up to `tcpi_delivery_rate`. Without these, nothing is reported.
const LEN_MIN: usize = 168;

/// The fields of `struct tcp_info` that matter to a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Info {
    mss: u64,
    unacked: u64,
    sacked: u64,
    lost: u64,
    retrans: u64,
    total_retrans: u64,
    rtt_micros: u32,
    min_rtt_micros: u32,
    cwnd: u64,
    bytes_acked: u64,
    segs_in: u32,
    notsent_bytes: u64,
    /// Segments that have arrived (since Linux 4.18).
    delivered: Option<u32>,
    /// The peer's receive window (since Linux 5.4).
    snd_wnd: Option<u64>,
}

impl Info {
    #[expect(unsafe_code, reason = "no crate in use wraps TCP_INFO; one call, explained where it is made")]
    pub(super) fn read(socket: &impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; LEN];
        let mut len = LEN as libc::socklen_t;
        // SAFETY: the descriptor is open for the whole call, as `socket` is borrowed. The kernel
        // writes at most `len` bytes to `bytes`, which has that many, and to `len` how many it wrote.
        // Any bytes are a valid value of the array.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Self::parse(&bytes[..LEN.min(len as usize)]).ok_or(io::ErrorKind::Unsupported.into())
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < LEN_MIN {
            return None;
        }
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            mss: word(16)?.into(),
            unacked: word(24)?.into(),
            sacked: word(28)?.into(),
            lost: word(32)?.into(),
            retrans: word(36)?.into(),
            total_retrans: word(100)?.into(),
            rtt_micros: word(68)?,
            cwnd: word(80)?.into(),
            bytes_acked: long(120)?,
            segs_in: word(140)?,
            notsent_bytes: word(144)?.into(),
            min_rtt_micros: word(148)?,
            delivered: word(192),
            snd_wnd: word(228).map(u64::from),
        })
    }

    /// Returns what this means for a connection that has taken so many bytes.
    pub(super) fn reading(&self, written: u64, round_trip: Duration) -> Reading {
        // `tcp_packets_in_flight` of the kernel.
        let packets = (self.unacked + self.retrans).saturating_sub(self.sacked + self.lost);
        // The last segment is seldom full, so what has not been acknowledged bounds the sum.
        let unacknowledged = written.saturating_sub(self.bytes_acked).saturating_sub(self.notsent_bytes);
        // A kernel without `snd_wnd` has its last field at 0, like a closed window.
        let window = (self.cwnd * self.mss).min(self.snd_wnd.unwrap_or(u64::MAX));
        Reading {
            written,
            acknowledged: self.bytes_acked,
            unsent: self.notsent_bytes,
            under_way: (packets * self.mss).min(unacknowledged),
            lost: self.total_retrans * self.mss,
            window,
            round_trip,
            round_trip_mean: Duration::from_micros(self.rtt_micros.into()),
            // Before the first sample it is the largest number.
            round_trip_min: Duration::from_micros(self.min_rtt_micros.min(self.rtt_micros).into()),
        }
    }
}

/// Estimates round trips of the last acknowledgements from the smoothed ones.
///
/// The kernel moves its mean by an eighth of the difference for each acknowledgement (RFC 6298
/// section 2.3, without a pause of a round trip). `n` acknowledgements with one round trip `r` take it
/// from `a` to `b = r + (a - r) (7/8)^n`, from which `r` follows. `n` is not known. It is at most the
/// number of segments that came in, and of those that have arrived. If it is smaller, the estimate
/// lies between `b` and `r`.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    last: Option<Info>,
}

/// Acknowledgements after which a mean says all that there is to know.
const ALL: u32 = 32;

impl RoundTrips {
    /// Returns the round trip since the last call; zero if nothing was acknowledged.
    pub(super) fn next(&mut self, info: &Info) -> Duration {
        let Some(last) = self.last.replace(*info) else { return Duration::ZERO };
        if info.bytes_acked <= last.bytes_acked {
            return Duration::ZERO;
        }
        let came_in = info.segs_in.wrapping_sub(last.segs_in);
        let arrived = info.delivered.zip(last.delivered).map(|(now, then)| now.wrapping_sub(then));
        let samples = came_in.min(arrived.unwrap_or(u32::MAX)).clamp(1, ALL);
        let rest = 0.875_f64.powi(samples as i32);
        let (before, after) = (f64::from(last.rtt_micros), f64::from(info.rtt_micros));
        let micros = before + (after - before) / (1.0 - rest);
        let least = f64::from(info.min_rtt_micros.min(info.rtt_micros));
        Duration::from_secs_f64(micros.max(least) / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn acknowledged(rtt_micros: u32, segments: u32) -> Info {
        Info {
            rtt_micros,
            min_rtt_micros: 50_000,
            bytes_acked: u64::from(segments) * 1448,
            segs_in: segments,
            delivered: Some(segments),
            ..Info::default()
        }
    }

    #[test]
    fn the_round_trip_of_the_last_acknowledgements_follows_from_the_mean() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.next(&acknowledged(50_000, 1)), Duration::ZERO);
        // One acknowledgement after 130 ms moves the mean by 10 ms.
        assert_eq!(trips.next(&acknowledged(60_000, 2)), Duration::from_millis(130));
        assert_eq!(trips.next(&acknowledged(60_000, 2)), Duration::ZERO);
        // Two more after 130 ms: 60 + 70 (1 - (7/8)^2) = 76.4 ms.
        let trip = trips.next(&acknowledged(76_406, 4));
        assert!(trip.abs_diff(Duration::from_millis(130)) < Duration::from_millis(1), "{trip:?}");
        // Falling means end at the least round trip.
        assert_eq!(trips.next(&acknowledged(70_000, 5)), Duration::from_millis(50));
    }

    #[test]
    fn an_old_kernel_reports_less_and_a_very_old_one_nothing() {
        assert_eq!(Info::parse(&[0; 104]), None);
        let info = Info::parse(&[0; 192]).unwrap();
        assert_eq!((info.delivered, info.snd_wnd), (None, None));
        assert!(Info::parse(&[0; LEN]).unwrap().snd_wnd.is_some());
    }

    #[test]
    fn the_kernel_counts_what_was_written() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        writer.write_all(&[7; 10_000]).unwrap();
        reader.read_exact(&mut [0; 10_000]).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        let info = loop {
            let info = Info::read(&writer).unwrap();
            // The acknowledgement of SYN may count.
            if info.bytes_acked >= 10_000 || std::time::Instant::now() > deadline {
                break info;
            }
        };
        assert!((10_000..=10_001).contains(&info.bytes_acked), "{info:?}");
        let reading = info.reading(10_000, Duration::ZERO);
        assert_eq!((reading.unsent, reading.under_way), (0, 0), "{info:?}");
        assert!(reading.window > 0 && reading.round_trip_mean > Duration::ZERO, "{info:?}");
        assert!(reading.round_trip_min <= reading.round_trip_mean, "{info:?}");
    }
}
