//! Reads the bodies and paths of requests. An error names the place in the JSON, the value there and
//! the expected one.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Bytes, HttpBody, to_bytes};
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use samara_document::{Mismatch, from_value};
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::server::count;
use super::{Api, Failure};
use crate::node::innermost;

/// The parser's error for an empty body.
const OF_EMPTY: &str = "EOF while parsing a value at line 1 column 0";
/// Maximum bytes of a request with publications, transactions or keys: 16 MiB of base64 are 12 MiB of
/// payload.
const BODY_MAX: usize = 16 << 20;
/// Maximum bytes of other requests.
const SHORT_MAX: usize = 1 << 20;
/// The paths of requests of up to [`BODY_MAX`] bytes.
const LONG: [&str; 5] =
    ["/v1/publish", "/v1/publish-batch", "/v1/pool/submit", "/v1/pool/commit", "/v1/group/broadcast"];
/// Maximum number of bodies of more than [`SHORT_MAX`] bytes at once. Others wait.
pub(crate) const LONG_MAX: usize = 2;
/// Time within which a body must arrive, beside a second for each [`RATE_MIN`] bytes of its announced
/// length.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
const RATE_MIN: u64 = 256 << 10;
/// Longest JSON that is read by way of a copy, whose errors name the value that was found. A copy takes
/// up to 70 times its bytes.
const COPIED_MAX: usize = 64 << 10;

/// Reads the body of a request to its end. Returns the request with it, and its share of the room for
/// long bodies.
pub(super) async fn receive(
    api: &Api,
    request: Request,
) -> Result<(Request, Option<OwnedSemaphorePermit>), Failure> {
    let max = if LONG.contains(&request.uri().path()) { BODY_MAX } else { SHORT_MAX };
    let too_long = |length: String| {
        let message = format!("found a body of {length} bytes; expected at most {max}");
        Failure(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let hint = request.body().size_hint();
    let announced = hint.upper().unwrap_or(u64::MAX);
    if hint.lower() > max as u64 {
        return Err(too_long(hint.lower().to_string()));
    }
    let bytes = announced.min(max as u64);
    let within = BODY_TIMEOUT + Duration::from_secs(bytes / RATE_MIN);
    let (parts, body) = request.into_parts();
    let reading = async {
        let room =
            if bytes > SHORT_MAX as u64 { Arc::clone(&api.room).acquire_owned().await.ok() } else { None };
        (room, to_bytes(body, max).await)
    };
    let Ok((room, read)) = timeout(within, reading).await else {
        count(&api.counts.late_bodies);
        let message = format!("the body did not arrive within {} s", within.as_secs());
        return Err(Failure(StatusCode::REQUEST_TIMEOUT, message));
    };
    // The only other error is that of a connection that has ended, which gets no answer.
    let read = read.map_err(|_| too_long(format!("more than {max}")))?;
    Ok((Request::from_parts(parts, read.into()), room))
}

/// The JSON of a request's body.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        if !is_json(request.headers()) {
            let message = "the request does not say that its body is JSON; expected the header \"content-type: application/json\"";
            return Err(Failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, message.to_owned()));
        }
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| Failure(rejection.status(), rejection.body_text()))?;
        read_bytes(&bytes).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
}

/// Reads the bytes of JSON into a type.
fn read_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    if bytes.len() > COPIED_MAX {
        return Ok(Json::<T>::from_bytes(bytes)?.0);
    }
    let Json(json) = match Json::<Value>::from_bytes(bytes) {
        Err(JsonRejection::JsonSyntaxError(error)) if innermost(&error) == OF_EMPTY => {
            let takes_none = read::<T>(Value::Object(Map::new())).is_ok();
            let expected = if takes_none { "{}" } else { "an object (docs/guides/node.md)" };
            return Err(Failure::wrong(format!("the body is empty; expected {expected}")));
        }
        json => json?,
    };
    read(json).map_err(|message| Failure(StatusCode::UNPROCESSABLE_ENTITY, message))
}

/// Reads a list of at most `N` entries, and stops at the next one.
pub(super) fn at_most<'de, const N: usize, T, D>(source: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct List<const N: usize, T>(PhantomData<T>);

    impl<'de, const N: usize, T: Deserialize<'de>> Visitor<'de> for List<N, T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {N}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = entries.next_element()? {
                if list.len() >= N {
                    return Err(A::Error::custom(format!("found more than {N}; expected at most {N}")));
                }
                list.push(entry);
            }
            Ok(list)
        }
    }

    source.deserialize_seq(List::<N, T>(PhantomData))
}

impl From<JsonRejection> for Failure {
    fn from(rejection: JsonRejection) -> Self {
        let message = match &rejection {
            JsonRejection::JsonSyntaxError(error) => {
                let cause = innermost(error);
                format!("the body is not JSON: {cause}; expected an object (docs/guides/node.md)")
            }
            _ => rejection.body_text(),
        };
        Self(rejection.status(), message)
    }
}

/// The number at the end of a request's path.
pub(super) struct Number(pub(super) u64);

impl<S: Send + Sync> FromRequestParts<S> for Number {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let text = Path::<String>::from_request_parts(parts, state).await.ok();
        let number = text.and_then(|Path(text)| text.parse().ok());
        number.map(Self).ok_or_else(|| {
            let path = parts.uri.path();
            Failure::wrong(format!("found the path {path}; expected a whole number after the last slash"))
        })
    }
}

/// The expectation of a size in the reader's words.
const WHOLE_NUMBER: &str = "a whole number from 0 to 9223372036854775807";

/// Reads JSON into a type.
///
/// # Errors
/// The place in the JSON, the value there, and the expected one.
pub(super) fn read<T: DeserializeOwned>(json: Value) -> Result<T, String> {
    let value = value(json)?;
    from_value(&value).map_err(|Mismatch { key, message, .. }| {
        // The reader has the terms of configuration files.
        let mut message = message.replace("a table", "an object");
        if key.ends_with("random_bytes") {
            message =
                message.replace(WHOLE_NUMBER, "a whole number of bytes without a unit, such as 1000000");
        }
        let mut place = String::new();
        for part in key.split('.').filter(|part| !part.is_empty()) {
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                place += &format!("[{part}]");
            } else {
                place += if place.is_empty() { "" } else { "." };
                place += part;
            }
        }
        if place.is_empty() { message } else { format!("{place}: {message}") }
    })
}

/// Converts JSON to the value of a configuration file. A key with `null` is one that is omitted.
fn value(json: Value) -> Result<toml::Value, String> {
    Ok(match json {
        Value::Null => return Err("found null; omit the key, or set a value".to_owned()),
        Value::Bool(value) => value.into(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => number.into(),
            (None, Some(float)) if !number.is_u64() => float.into(),
            _ => return Err(format!("found {number}; expected at most {}", i64::MAX)),
        },
        Value::String(text) => text.into(),
        Value::Array(items) => items.into_iter().map(value).collect::<Result<Vec<_>, _>>()?.into(),
        Value::Object(entries) => {
            let entries = entries.into_iter().filter(|(_, json)| !json.is_null());
            let entries = entries.map(|(key, json)| Ok((key, value(json)?)));
            toml::Value::Table(entries.collect::<Result<_, String>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use tokio::sync::{Semaphore, mpsc};

    use super::*;
    use crate::live::Live;
    use crate::mix::Met;

    fn api() -> Api {
        let (node, _) = mpsc::channel(1);
        let (pool, group, mix, token) = (None, None, None, None);
        let (counts, room) = (Arc::default(), Arc::new(Semaphore::new(LONG_MAX)));
        let live = Live::start(None, "node", Met::default());
        Api { node, pool, group, mix, live, topic_bytes: 0, allow_remote: false, token, counts, room }
    }

    /// A request with this much of its body, which never ends.
    fn endless(path: &str, len: usize) -> Request {
        let part = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b' '; len]))]);
        let body = futures::StreamExt::chain(part, futures::stream::pending());
        Request::post(path).body(axum::body::Body::from_stream(body)).expect("a request")
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_have_a_deadline() {
        let api = api();
        for path in ["/v1/stop", "/v1/publish"] {
            let failure = receive(&api, endless(path, 100)).await.expect_err("it is late");
            assert_eq!(failure.0, StatusCode::REQUEST_TIMEOUT, "{}", failure.1);
        }
        let counted = api.counts.refused().control_refused["late_body"];
        assert_eq!((counted, api.room.available_permits()), (2, LONG_MAX));
    }

    /// However many clients send long bodies, the node holds few of them.
    #[tokio::test(start_paused = true)]
    async fn few_long_bodies_are_held_at_once() {
        let api = api();
        let long = || Request::post("/v1/publish").body(vec![b' '; 2 << 20].into()).expect("a request");
        let mut rooms = Vec::new();
        for _ in 0..LONG_MAX {
            rooms.push(receive(&api, long()).await.expect("it is received").1.expect("its room"));
        }
        let waits = receive(&api, long()).await.expect_err("there is no room");
        assert_eq!(waits.0, StatusCode::REQUEST_TIMEOUT);
        let short = Request::post("/v1/publish").body(vec![b' '; 100].into()).expect("a request");
        assert!(receive(&api, short).await.expect("short ones need none").1.is_none());
        rooms.clear();
        assert!(receive(&api, long()).await.is_ok());
    }

    #[tokio::test]
    async fn bodies_are_bounded_by_their_path() {
        let api = api();
        for (path, len, is_fine) in [
            ("/v1/publish", BODY_MAX, true),
            ("/v1/publish", BODY_MAX + 1, false),
            ("/v1/stop", SHORT_MAX, true),
            ("/v1/stop", SHORT_MAX + 1, false),
            ("/nothing", SHORT_MAX + 1, false),
        ] {
            let request = Request::post(path).body(vec![b' '; len].into()).expect("a request");
            let received = receive(&api, request).await.map_err(|failure| failure.0);
            assert_eq!(received.is_ok(), is_fine, "{path} {len}");
            // Without an announced length.
            let failure = receive(&api, endless(path, BODY_MAX + 1)).await.expect_err("it is too long");
            assert_eq!(failure.0, StatusCode::PAYLOAD_TOO_LARGE);
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        #[serde(deserialize_with = "at_most::<3, _, _>")]
        entries: Vec<u8>,
    }

    /// Long bodies do not become trees of values: reading stops at the first byte that does not fit.
    #[test]
    fn long_bodies_are_read_into_their_type() {
        let spaces = " ".repeat(COPIED_MAX);
        let list: List = read_bytes(format!("{{\"entries\":[1,2,3]{spaces}}}").as_bytes()).expect("it fits");
        assert_eq!(list.entries, [1, 2, 3]);
        let nested = format!("[{}[]]", "[],".repeat(5 << 20));
        let failure = read_bytes::<List>(nested.as_bytes()).expect_err("another type");
        assert!(failure.1.contains("line 1 column 5"), "{}", failure.1);
        let many = format!("{{\"entries\":[{}1]}}", "1,".repeat(5 << 20));
        let failure = read_bytes::<List>(many.as_bytes()).expect_err("too many");
        assert!(failure.1.contains("expected at most 3 at line 1 column 20"), "{}", failure.1);
        let failure = read_bytes::<List>(b"{\"entries\":[1,2,3,4]}").expect_err("too many");
        assert!(failure.1.contains("entries") && failure.1.contains("expected at most 3"), "{}", failure.1);
    }
}
