//! A stream whose peer must take what it is sent, at a least pace.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Least bytes a second that a peer must take after its patience.
const RATE_MIN: u64 = 64 << 10;

/// A stream that breaks with [`io::ErrorKind::TimedOut`] if its peer takes too long for what is
/// being written: `patience`, and a second for each 64 KiB that it has taken. Reading has no limit.
#[derive(Debug)]
pub(super) struct Paced<S> {
    stream: S,
    patience: Duration,
    waiting: Option<Waiting>,
}

/// A write that found no room.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    taken: u64,
    timer: Pin<Box<Sleep>>,
}

impl<S> Paced<S> {
    /// Wraps a stream.
    pub(super) const fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    /// Counts what was written, or waits until there is room or the time is up.
    fn written(
        &mut self,
        polled: Poll<io::Result<usize>>,
        wanted: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(len)) = &polled {
            match &mut self.waiting {
                Some(waiting) if *len < wanted => waiting.taken += *len as u64,
                _ => self.waiting = None,
            }
        }
        if polled.is_ready() {
            return polled;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| {
            let since = Instant::now();
            Waiting { since, taken: 0, timer: Box::pin(sleep_until(since + patience)) }
        });
        loop {
            ready!(waiting.timer.as_mut().poll(cx));
            let end = waiting.since + patience + Duration::from_secs(waiting.taken / RATE_MIN);
            if end <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            waiting.timer.as_mut().reset(end);
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(polled, bytes.len(), cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(polled, wanted, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Writes to a peer that takes `bytes` every `interval`. Returns whether all left.
    async fn write(len: usize, bytes: usize, interval: Duration) -> io::Result<()> {
        let (stream, mut peer) = duplex(4 << 10);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; bytes];
            while peer.read_exact(&mut buffer).await.is_ok() {
                tokio::time::sleep(interval).await;
            }
        });
        let mut stream = Paced::new(stream, Duration::from_secs(10));
        let written = stream.write_all(&vec![0; len]).await;
        reading.abort();
        written
    }

    #[tokio::test(start_paused = true)]
    async fn slow_readers_break_the_stream() {
        let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
        write(1 << 20, 64 << 10, second / 2).await.expect("fast enough");
        write(2 << 10, 1, day).await.expect("it fits into the buffers");
        for (bytes, interval) in [(1, second), (64, second), (16 << 10, second), (1, day)] {
            let error = write(16 << 20, bytes, interval).await.expect_err("too slow");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{bytes} bytes every {interval:?}");
        }
    }

    /// Time without anything to write does not count.
    #[tokio::test(start_paused = true)]
    async fn silence_breaks_nothing() {
        let (stream, mut peer) = duplex(4 << 10);
        let mut stream = Paced::new(stream, Duration::from_secs(10));
        let mut buffer = [0; 6 << 10];
        for _ in 0..3 {
            let (written, read) = tokio::join!(stream.write_all(&[1; 6 << 10]), peer.read_exact(&mut buffer));
            written.and(read).expect("both work");
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        }
    }
}
