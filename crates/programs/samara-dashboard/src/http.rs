//! HTTP/1.1 for a few pages: one request for each connection, read within bounds.
//!
//! A page needs no more, and an asynchronous server would take a tenth of the workbench's build.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use thiserror::Error;

/// Maximum size of the request line and the headers in bytes.
pub(crate) const HEAD_MAX: usize = 8 << 10;
/// Maximum number of headers. Browsers send about 15.
pub(crate) const HEADERS_MAX: usize = 64;
/// Maximum size of a body in bytes. The only body is a token.
const BODY_MAX: usize = 4 << 10;
/// Time in which a request must arrive.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Least bytes a second at which a client must take a response, or each part of a stream, after
/// [`TIMEOUT`].
const RATE_MIN: u64 = 64 << 10;
/// Bytes and time for which a refused request is still read, so that the client sees the refusal.
const DRAINED: (usize, Duration) = (1 << 20, Duration::from_secs(1));

/// A request that is not answered as asked.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error("the request is not HTTP/1.1: {0}")]
    Malformed(String),
    #[error("the request has more than {HEADERS_MAX} headers, or more than {HEAD_MAX} bytes before its body")]
    LongHead,
    #[error("the body has more than {BODY_MAX} bytes")]
    LongBody,
    #[error("bodies in chunks are not supported; send Content-Length")]
    Chunked,
    #[error("the request did not arrive within {} s", TIMEOUT.as_secs())]
    Late,
    /// Nobody is there to answer to.
    #[error("the connection has ended")]
    Ended,
}

impl RequestError {
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::Ended => 400,
            Self::LongHead => 431,
            Self::LongBody => 413,
            Self::Chunked => 501,
            Self::Late => 408,
        }
    }
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            _ => Self::Ended,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Reads a request to its end.
    pub(crate) fn read(from: &mut impl Read) -> Result<Self, RequestError> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 1024];
        let (mut request, head) = loop {
            if let Some(read) = Self::head(&bytes)? {
                break read;
            }
            if bytes.len() >= HEAD_MAX {
                return Err(RequestError::LongHead);
            }
            let room = buffer.len().min(HEAD_MAX - bytes.len());
            match from.read(&mut buffer[..room])? {
                0 if bytes.is_empty() => return Err(RequestError::Ended),
                0 => return Err(RequestError::Malformed("it ends within the headers".to_owned())),
                length => bytes.extend_from_slice(&buffer[..length]),
            }
        };
        if request.header("transfer-encoding").is_some() {
            return Err(RequestError::Chunked);
        }
        let length = request.length()?;
        if length > BODY_MAX {
            return Err(RequestError::LongBody);
        }
        request.body = bytes.split_off(head);
        request.body.truncate(length);
        let missing = length - request.body.len();
        let read = from.take(missing as u64).read_to_end(&mut request.body)?;
        if read < missing {
            return Err(RequestError::Malformed("it ends within the body".to_owned()));
        }
        Ok(request)
    }

    /// Parses the request line and headers, with their length; `None` if more bytes are needed.
    fn head(bytes: &[u8]) -> Result<Option<(Self, usize)>, RequestError> {
        let malformed = |error: &str| RequestError::Malformed(error.to_owned());
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        let status = parsed.parse(bytes).map_err(|error| match error {
            httparse::Error::TooManyHeaders => RequestError::LongHead,
            error => malformed(&error.to_string()),
        })?;
        let httparse::Status::Complete(length) = status else { return Ok(None) };
        let (method, target) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = parsed.headers.iter().map(|header| {
            let value = std::str::from_utf8(header.value).map_err(|_| malformed("a header is not UTF-8"))?;
            Ok((header.name.to_ascii_lowercase(), value.to_owned()))
        });
        let request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: headers.collect::<Result<_, RequestError>>()?,
            body: Vec::new(),
        };
        Ok(Some((request, length)))
    }

    /// The length of the body. Servers that disagree on it would see different requests, so nothing
    /// but digits in at most one header is accepted (RFC 9112, section 6.3).
    fn length(&self) -> Result<usize, RequestError> {
        let malformed = |error: &str| RequestError::Malformed(error.to_owned());
        let mut lengths = self.headers.iter().filter(|(name, _)| name == "content-length");
        let Some((_, length)) = lengths.next() else { return Ok(0) };
        if lengths.next().is_some() {
            return Err(malformed("it has several headers Content-Length"));
        }
        if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed("Content-Length is no number"));
        }
        // A number that does not fit is a long body.
        Ok(length.parse().unwrap_or(usize::MAX))
    }

    /// The first header with this name, in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(other, _)| other == name);
        header.map(|(_, value)| value.as_str())
    }

    /// A parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        field(self.query.as_bytes(), name)
    }

    /// A field of the form in the body.
    pub(crate) fn form(&self, name: &str) -> Option<String> {
        field(&self.body, name)
    }
}

fn field(encoded: &[u8], name: &str) -> Option<String> {
    let mut fields = form_urlencoded::parse(encoded);
    fields.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names are in lower case.
    pub(crate) headers: Vec<(&'static str, Cow<'static, str>)>,
    pub(crate) body: Body,
}

pub(crate) enum Body {
    Text(Cow<'static, str>),
    /// A file of this length. Of a longer one, only so much is sent.
    File(File, u64),
    /// Parts of unknown number, each sent at once.
    Stream(Box<dyn Iterator<Item = String>>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Text("".into())
    }
}

impl Response {
    pub(crate) fn new(status: u16, content_type: &'static str, body: impl Into<Cow<'static, str>>) -> Self {
        Self { status, headers: vec![("content-type", content_type.into())], body: Body::Text(body.into()) }
    }

    /// Sets a header, unless it is there.
    pub(crate) fn or_header(&mut self, name: &'static str, value: &'static str) {
        if !self.headers.iter().any(|(other, _)| *other == name) {
            self.headers.push((name, value.into()));
        }
    }

    /// Writes the response; without its body for a request of the head alone.
    fn write(self, is_head: bool, to: &TcpStream) -> io::Result<()> {
        let length = match &self.body {
            Body::Text(text) => Some(text.len() as u64),
            Body::File(_, length) => Some(*length),
            Body::Stream(_) => None,
        };
        let mut head = format!("HTTP/1.1 {} {}\r\nconnection: close\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let (Some(length), 200..=203 | 205..) = (length, self.status) {
            head.push_str(&format!("content-length: {length}\r\n"));
        }
        head.push_str("\r\n");
        let mut writer = Until::taking(to, head.len() as u64 + length.unwrap_or(0));
        writer.write_all(head.as_bytes())?;
        match self.body {
            _ if is_head => Ok(()),
            Body::Text(text) => writer.write_all(text.as_bytes()),
            Body::File(file, length) => io::copy(&mut file.take(length), &mut writer).map(drop),
            Body::Stream(mut parts) => {
                parts.try_for_each(|part| Until::taking(to, part.len() as u64).write_all(part.as_bytes()))
            }
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        303 => "See Other",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// Reads the request of a connection, and writes the response. `respond` is called when the whole
/// request has arrived, or is known to be wrong.
pub(crate) fn converse(
    stream: &TcpStream,
    respond: impl FnOnce(Result<&Request, RequestError>) -> Response,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let request = Request::read(&mut Until { stream, end: Instant::now() + TIMEOUT });
    match request {
        Ok(request) => respond(Ok(&request)).write(request.method == "HEAD", stream),
        Err(RequestError::Ended) => Ok(()),
        Err(error) => {
            respond(Err(error)).write(false, stream)?;
            refuse(stream)
        }
    }
}

/// Ends a connection whose request was not read to its end. Without reading on, the client would
/// get a reset instead of the response.
fn refuse(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let mut rest = Until { stream, end: Instant::now() + DRAINED.1 }.take(DRAINED.0 as u64);
    io::copy(&mut rest, &mut io::sink()).map(drop)
}

/// Reads or writes until a time, however slowly bytes arrive or leave.
pub(crate) struct Until<'a> {
    pub(crate) stream: &'a TcpStream,
    pub(crate) end: Instant,
}

impl<'a> Until<'a> {
    /// Returns a writer of this many bytes.
    fn taking(stream: &'a TcpStream, bytes: u64) -> Self {
        Self { stream, end: Instant::now() + TIMEOUT + Duration::from_secs(bytes / RATE_MIN) }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

/// Checks that any bytes are a request within its bounds or an error, whatever their pieces are. Not
/// for programs.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[allow(unreachable_pub)]
pub fn fuzz_request(bytes: &[u8]) {
    struct ByteByByte<'a>(&'a [u8]);
    impl Read for ByteByByte<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }
    let whole = Request::read(&mut &*bytes);
    if let Ok(request) = &whole {
        assert!(request.body.len() <= BODY_MAX && request.headers.len() <= HEADERS_MAX);
        let _ = (request.parameter("run"), request.form("token"));
    }
    let slow = Request::read(&mut ByteByByte(bytes));
    assert_eq!(whole.map_err(|error| error.to_string()), slow.map_err(|error| error.to_string()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Request, RequestError> {
        Request::read(&mut &*bytes)
    }

    #[test]
    fn requests_are_read_with_query_headers_and_form() {
        let text =
            b"POST /v1/a?run=a%20b&x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\ntoken=a+bREST";
        let request = read(text).unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/a"));
        assert_eq!(request.parameter("run").as_deref(), Some("a b"));
        assert_eq!(request.parameter("other"), None);
        assert_eq!(request.header("host"), Some("localhost"));
        assert_eq!(request.form("token").as_deref(), Some("a b"));
    }

    #[test]
    fn bad_requests_have_a_status_that_says_why() {
        let head = |headers: &str| format!("GET / HTTP/1.1\r\n{headers}\r\n\r\n");
        let cases = [
            (String::new(), 400),
            ("\0\0\0".to_owned(), 400),
            ("GET / HTTP/1.1\r\nHost: a".to_owned(), 400),
            ("GET / HTTP/2.0\r\n\r\n".to_owned(), 400),
            (head("Content-Length: -1"), 400),
            (head("Content-Length: +5"), 400),
            (head("Content-Length:"), 400),
            (head("Content-Length: 0\r\nContent-Length: 0"), 400),
            (head("Content-Length: 0, 0"), 400),
            (head("Content-Length: 99999999999999999999999"), 413),
            (head("Content-Length: 5"), 400),
            (head("Content-Length: 4097"), 413),
            (head(&"a: b\r\n".repeat(HEADERS_MAX + 1)), 431),
            (head("Transfer-Encoding: chunked"), 501),
            (head(&format!("a: {}", "x".repeat(HEAD_MAX))), 431),
        ];
        for (text, status) in cases {
            assert_eq!(read(text.as_bytes()).unwrap_err().status(), status, "{text:.60}");
        }
    }

    /// A client that takes nothing, or little at a time, does not hold its connection.
    #[test]
    fn slow_readers_have_a_deadline() {
        for takes in [0, 1_000] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let server = listener.accept().unwrap().0;
            let (ended, end) = std::sync::mpsc::channel::<()>();
            let reading = std::thread::spawn(move || {
                let mut buffer = vec![0; takes];
                while end.try_recv().is_err() {
                    if takes > 0 {
                        client.read_exact(&mut buffer).unwrap();
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let mut writer = Until { stream: &server, end: Instant::now() + Duration::from_millis(200) };
            let error = writer.write_all(&vec![0; 256 << 20]).unwrap_err();
            assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
            ended.send(()).unwrap();
            reading.join().unwrap();
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_bounded(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), is_http: bool) {
            if is_http {
                bytes.splice(0..0, *b"POST /login HTTP/1.1\r\nContent-Length: 150\r\n\r\n");
            }
            fuzz_request(&bytes);
        }
    }
}
