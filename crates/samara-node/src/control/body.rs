//! Reads the bodies and paths of requests. An error names the place in the JSON, the value there and
//! the expected one.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use samara_scenario::from_value;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Failure;
use crate::node::innermost;

/// The parser's error for an empty body.
const OF_EMPTY: &str = "EOF while parsing a value at line 1 column 0";

/// The JSON of a request's body.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let Json(json) = match Json::<Value>::from_request(request, state).await {
            Err(JsonRejection::JsonSyntaxError(error)) if innermost(&error) == OF_EMPTY => {
                let takes_none = read::<T>(Value::Object(Map::new())).is_ok();
                let expected = if takes_none { "{}" } else { "an object (docs/guides/node.md)" };
                return Err(Failure::wrong(format!("the body is empty; expected {expected}")));
            }
            json => json?,
        };
        read(json).map(Self).map_err(|message| Failure(StatusCode::UNPROCESSABLE_ENTITY, message))
    }
}

impl From<JsonRejection> for Failure {
    fn from(rejection: JsonRejection) -> Self {
        let message = match &rejection {
            JsonRejection::JsonSyntaxError(error) => {
                let cause = innermost(error);
                format!("the body is not JSON: {cause}; expected an object (docs/guides/node.md)")
            }
            JsonRejection::MissingJsonContentType(_) => {
                "the request does not say that its body is JSON; expected the header \"content-type: application/json\""
                    .to_owned()
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
    from_value(&value).map_err(|(key, message)| {
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
