//! What both sides of a connection say first: which group, and who.

use std::net::SocketAddr;

use samara_engine::PeerIdentity;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::status::Closed;

/// What every connection begins with. The last byte is the version of the framing.
const MAGIC: [u8; 8] = *b"samring\x01";
/// The magic, the group, and the length of the name.
const HEAD_BYTES: usize = MAGIC.len() + 8 + 1;
/// The longest address as text is `[` + 39 + `%` + a number of 10 digits + `]:65535`.
const NAME_MAX: usize = 64;

/// The name of a member is the address at which it is dialled, so that whoever knows the view can dial all of it.
pub(super) fn identity_of(address: SocketAddr) -> PeerIdentity {
    PeerIdentity::new(address.to_string().as_bytes())
}

/// The address at which the member with this name is dialled.
pub(super) fn address_of(identity: &PeerIdentity) -> Option<SocketAddr> {
    std::str::from_utf8(identity.as_bytes()).ok()?.parse().ok()
}

/// Tells who this node is, and asks who is there. Whoever is slow is cut off by the caller's timeout.
///
/// # Errors
/// It is not a member of this group.
pub(super) async fn exchange(
    stream: &mut TcpStream,
    group: u64,
    own: SocketAddr,
) -> Result<SocketAddr, Closed> {
    let failed = |error: std::io::Error| Closed::Handshake(error.to_string());
    let name = own.to_string();
    let mut hello = Vec::with_capacity(HEAD_BYTES + name.len());
    hello.extend_from_slice(&MAGIC);
    hello.extend_from_slice(&group.to_le_bytes());
    hello.push(name.len() as u8);
    hello.extend_from_slice(name.as_bytes());
    stream.write_all(&hello).await.map_err(failed)?;

    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).await.map_err(failed)?;
    let (magic, rest) = head.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Closed::Handshake("it does not speak this protocol".to_owned()));
    }
    let (theirs, len) = rest.split_at(8);
    if theirs != group.to_le_bytes() {
        return Err(Closed::OtherGroup);
    }
    let len = usize::from(len[0]);
    if len > NAME_MAX {
        return Err(Closed::Handshake(format!("a name of {len} bytes, at most {NAME_MAX} are allowed")));
    }
    let mut name = [0; NAME_MAX];
    stream.read_exact(&mut name[..len]).await.map_err(failed)?;
    let name = std::str::from_utf8(&name[..len]).ok();
    let address = name.and_then(|name| name.parse::<SocketAddr>().ok());
    address.ok_or_else(|| Closed::Handshake("its name is not an address".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_addresses() {
        for text in ["127.0.0.1:7800", "[2001:db8::1]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(address_of(&identity_of(address)), Some(address));
        }
        let longest = format!("[{}%4294967295]:65535", ["ffff"; 8].join(":"));
        let longest: SocketAddr = longest.parse().unwrap();
        assert!(longest.to_string().len() <= NAME_MAX);
        assert_eq!(address_of(&PeerIdentity::new(b"somewhere")), None);
    }
}
