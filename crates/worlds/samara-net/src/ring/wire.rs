//! A connection after its handshake: a socket, with TLS on it or without.

use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use bytes::BufMut;
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;
use tokio_rustls::rustls::Connection;

use crate::link::{Traffic, hang_up};
use crate::status::Closed;

/// Bytes that one system call reads from the socket of a TLS connection.
const READ_BYTES: usize = 64 << 10;

pub(super) struct Wire {
    stream: TcpStream,
    tls: Option<Box<Tls>>,
    traffic: Arc<Traffic>,
}

struct Tls {
    connection: Connection,
    /// Bytes from the socket, and the range of those that TLS has not taken.
    read: Vec<u8>,
    from: usize,
    until: usize,
    /// More may come without further bytes from the socket.
    has_more: bool,
}

/// The writing half of a socket that is ready or returns an error.
struct Socket<'a>(&'a TcpStream, &'a Traffic);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes).inspect(|len| self.1.sent(*len))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices).inspect(|len| self.1.sent(*len))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire {
    pub(super) fn new(stream: TcpStream, tls: Option<Connection>, traffic: Arc<Traffic>) -> Self {
        let tls = tls.map(|connection| {
            // The handshake may have read ahead.
            Box::new(Tls { connection, read: vec![0; READ_BYTES], from: 0, until: 0, has_more: true })
        });
        Self { stream, tls, traffic }
    }

    /// Reads the bytes that are there. Returns their number, or 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` if there are none, or the connection has failed.
    pub(super) fn read(&mut self, into: &mut impl BufMut) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.try_read_buf(into).inspect(|len| self.traffic.received(*len)),
            Some(tls) => {
                let result = tls.read(&self.stream, &self.traffic, into);
                tls.has_more = result.as_ref().is_ok_and(|len| *len > 0);
                result
            }
        }
    }

    /// Writes as much as the socket accepts at once. Returns the number of bytes.
    ///
    /// # Errors
    /// `WouldBlock` if it accepts nothing, or the connection has failed.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        let Some(tls) = &mut self.tls else {
            return Socket(&self.stream, &self.traffic).write_vectored(slices);
        };
        let len = tls.connection.writer().write_vectored(slices)?;
        self.flush()?;
        if len == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(len) }
    }

    /// Writes what TLS holds, as far as the socket accepts it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.connection.wants_write() {
            match tls.connection.write_tls(&mut Socket(&self.stream, &self.traffic)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns true if [`flush`](Self::flush) has left bytes.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.connection.wants_write())
    }

    /// Returns true if a read may succeed although the socket is not ready.
    pub(super) fn has_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_more)
    }

    /// Waits for the socket, or for ever without an interest.
    pub(super) async fn ready(&self, interest: Option<Interest>) -> io::Result<Ready> {
        match interest {
            Some(interest) => self.stream.ready(interest).await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn hang_up(&mut self) -> Closed {
        hang_up(&mut self.stream).await
    }
}

impl Tls {
    fn read(&mut self, stream: &TcpStream, traffic: &Traffic, into: &mut impl BufMut) -> io::Result<usize> {
        loop {
            let mut reader = self.connection.reader();
            match reader.fill_buf() {
                Ok(plain) => {
                    let len = plain.len().min(into.remaining_mut());
                    into.put_slice(&plain[..len]);
                    reader.consume(len);
                    return Ok(len);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.from == self.until {
                (self.from, self.until) = (0, stream.try_read(&mut self.read)?);
                if self.until == 0 {
                    return Ok(0);
                }
                traffic.received(self.until);
            }
            let mut bytes = &self.read[self.from..self.until];
            self.from += self.connection.read_tls(&mut bytes as &mut dyn Read)?;
            let taken = self.connection.process_new_packets();
            taken.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }
}
