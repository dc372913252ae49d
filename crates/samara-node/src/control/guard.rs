//! Against web pages: a browser on this machine reaches loopback addresses too.
//!
//! A page of another origin cannot send `application/json`, which every request with an effect needs, without being asked
//! first; this server never says yes. And a page whose name was made to resolve to this machine (DNS rebinding) is told by
//! the name. Bodies that say that they are too long are refused before they are sent.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, HOST};
use axum::middleware::Next;
use axum::response::Response;

use super::answer::Failure;
use super::{Api, BODY_MAX};

pub(super) async fn check(State(api): State<Api>, request: Request, next: Next) -> Result<Response, Failure> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !api.allow_remote && !is_local_name(host) {
        let message = format!(
            "found the host {host:?}; expected an IP address or localhost (or allow_remote = true in the configuration)"
        );
        return Err(Failure::forbidden(message));
    }
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length: u64 = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    if length > BODY_MAX as u64 {
        return Err(Failure::too_long(format!(
            "found a body of {length} bytes; expected at most {BODY_MAX}"
        )));
    }
    Ok(next.run(request).await)
}

fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((ip, _)) => ip,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_refused() {
        for host in
            ["127.0.0.1:7000", "127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:7000", "[::1]", "10.0.0.1:1"]
        {
            assert!(is_local_name(host), "{host}");
        }
        for host in
            ["", "evil.example:7000", "localhost.evil.example", "127.0.0.1.evil.example:7000", "[x]:1"]
        {
            assert!(!is_local_name(host), "{host}");
        }
    }
}
