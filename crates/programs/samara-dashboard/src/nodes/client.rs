//! Requests to nodes, within bounds of bytes and time.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use samara_trace::live::{FEED_BYTES_MAX, FeedError};
use thiserror::Error;

use super::NodeAddress;
use crate::http::{HEAD_MAX, HEADERS_MAX, Until};

/// Time for a connection to each address of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
/// Time in which an answer must arrive, from the request on.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why a node has no answer. Nothing of it is text of the node.
#[derive(Debug, Error)]
pub(super) enum Problem {
    #[error("the name has no address: {0}")]
    Unknown(String),
    #[error("no connection: {0}")]
    NoConnection(String),
    #[error("no answer within {} s", ANSWER_TIMEOUT.as_secs())]
    Late,
    #[error("the connection ended before the answer")]
    Ended,
    #[error("no node of Samara: the answer is not HTTP/1.1")]
    NotHttp,
    #[error("the answer has more than {0} bytes")]
    Long(usize),
    #[error("it demands a token, or another one: put its file behind the address in the list of nodes")]
    Token,
    #[error("it rejects the name: use its IP address, or allow_remote = true at the node")]
    Name,
    #[error("no live lines there: expected the address of [metrics] or [control] of `samara node`")]
    NoLines,
    #[error("it answers with status {0}")]
    Status(u16),
    #[error(transparent)]
    Lines(#[from] FeedError),
    #[error("it has a new start in each answer")]
    Restarts,
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            _ => Self::Ended,
        }
    }
}

/// Requests the lines of a node from a number on.
pub(super) fn request(node: &NodeAddress, from: u64) -> Result<Vec<u8>, Problem> {
    let stream = connect(node)?;
    let authorization = match &node.token {
        Some(token) => format!("authorization: Bearer {}\r\n", token.0),
        None => String::new(),
    };
    let request = format!(
        "GET /live/{from} HTTP/1.1\r\nhost: {node}\r\nconnection: close\r\naccept: application/x-ndjson\r\n\
         {authorization}\r\n"
    );
    let mut until = Until { stream: &stream, end: Instant::now() + ANSWER_TIMEOUT };
    until.write_all(request.as_bytes())?;
    read(&mut until)
}

fn connect(node: &NodeAddress) -> Result<TcpStream, Problem> {
    let addresses = (node.host.as_str(), node.port).to_socket_addrs();
    let addresses = addresses.map_err(|error| Problem::Unknown(error.to_string()))?;
    let mut problem = Problem::Unknown("no address".to_owned());
    for address in addresses.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let silence = format!("no reply within {} s", CONNECT_TIMEOUT.as_secs());
                problem = Problem::NoConnection(silence);
            }
            Err(error) => problem = Problem::NoConnection(kind(&error)),
        }
    }
    Err(problem)
}

/// The reason in words, without the number of the system's error.
fn kind(error: &io::Error) -> String {
    error.kind().to_string()
}

/// Reads an answer to its end, and returns its body.
fn read(from: &mut impl Read) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let (head, length) = loop {
        if let Some(head) = head(&bytes)? {
            break head;
        }
        if bytes.len() >= HEAD_MAX {
            return Err(Problem::Long(HEAD_MAX));
        }
        let room = buffer.len().min(HEAD_MAX - bytes.len());
        match from.read(&mut buffer[..room])? {
            0 if bytes.is_empty() => return Err(Problem::Ended),
            0 => return Err(Problem::NotHttp),
            length => bytes.extend_from_slice(&buffer[..length]),
        }
    };
    let mut body = bytes.split_off(head);
    // Without a length, the body ends with the connection.
    let most = length.unwrap_or(FEED_BYTES_MAX + 1);
    if length.is_some_and(|length| length > FEED_BYTES_MAX) {
        return Err(Problem::Long(FEED_BYTES_MAX));
    }
    body.truncate(most);
    let missing = most - body.len();
    let read = from.take(missing as u64).read_to_end(&mut body)?;
    if body.len() > FEED_BYTES_MAX {
        return Err(Problem::Long(FEED_BYTES_MAX));
    }
    if length.is_some() && read < missing {
        return Err(Problem::Ended);
    }
    Ok(body)
}

/// Parses status and headers. Returns their length and that of the body, if it has one; `None` if
/// more bytes are needed.
fn head(bytes: &[u8]) -> Result<Option<(usize, Option<usize>)>, Problem> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let status = parsed.parse(bytes).map_err(|_| Problem::NotHttp)?;
    let httparse::Status::Complete(end) = status else { return Ok(None) };
    match parsed.code.unwrap_or_default() {
        200 => {}
        401 => return Err(Problem::Token),
        403 => return Err(Problem::Name),
        404 | 405 => return Err(Problem::NoLines),
        status => return Err(Problem::Status(status)),
    }
    let header = |name: &str| parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    if header("transfer-encoding").is_some() {
        // A node knows the length of its answer.
        return Err(Problem::NoLines);
    }
    let length = header("content-length").map(|header| {
        let text = std::str::from_utf8(header.value).ok();
        text.and_then(|text| text.parse().ok()).ok_or(Problem::NotHttp)
    });
    Ok(Some((end, length.transpose()?)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(answer: &[u8]) -> String {
        read(&mut &*answer).unwrap_err().to_string()
    }

    #[test]
    fn answers_are_read_to_their_end() {
        let short = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcdef";
        assert_eq!(read(&mut &short[..]).unwrap(), b"abc");
        let open = b"HTTP/1.1 200 OK\r\n\r\nabcdef";
        assert_eq!(read(&mut &open[..]).unwrap(), b"abcdef");
    }

    proptest! {
        /// Whatever a server sends, in whatever pieces: a body within the bounds, or a problem.
        #[test]
        fn any_bytes_are_bounded(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), length: Option<u16>) {
            if let Some(length) = length {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                bytes.splice(0..0, head.into_bytes());
            }
            struct ByteByByte<'a>(&'a [u8]);
            impl Read for ByteByByte<'_> {
                fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                    let length = buffer.len().min(1);
                    self.0.read(&mut buffer[..length])
                }
            }
            let whole = read(&mut &*bytes).map_err(|problem| problem.to_string());
            prop_assert!(whole.as_ref().map_or(0, Vec::len) <= bytes.len());
            prop_assert_eq!(whole, read(&mut ByteByByte(&bytes)).map_err(|problem| problem.to_string()));
        }
    }

    #[test]
    fn other_answers_are_problems_with_a_remedy() {
        let status = |status: &str| problem(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes());
        assert!(status("401 Unauthorized").contains("put its file behind the address"));
        assert!(status("403 Forbidden").contains("use its IP address"));
        assert!(status("404 Not Found").contains("expected the address of [metrics] or [control]"));
        assert_eq!(status("503 x"), "it answers with status 503");
        let headers = |headers: &str| problem(format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\nx").as_bytes());
        assert_eq!(headers("content-length: 2"), Problem::Ended.to_string());
        assert_eq!(headers("content-length: -1"), Problem::NotHttp.to_string());
        assert_eq!(headers("content-length: 99999999999"), Problem::Long(FEED_BYTES_MAX).to_string());
        assert_eq!(headers("transfer-encoding: chunked"), Problem::NoLines.to_string());
        assert_eq!(headers(&format!("a: {}", "x".repeat(HEAD_MAX))), Problem::Long(HEAD_MAX).to_string());
        assert_eq!(problem(b""), Problem::Ended.to_string());
        for garbage in [&b"\x15\x03\x01\x00\x02"[..], b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nx"] {
            assert_eq!(problem(garbage), Problem::NotHttp.to_string());
        }
        let mut endless = b"HTTP/1.1 200 OK\r\n\r\n".chain(io::repeat(b'x'));
        assert_eq!(read(&mut endless).unwrap_err().to_string(), Problem::Long(FEED_BYTES_MAX).to_string());
    }
}
