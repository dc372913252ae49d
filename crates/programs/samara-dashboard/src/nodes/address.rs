//! The addresses of nodes, on the command line and in a list.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Maximum number of nodes.
pub(crate) const NODES_MAX: usize = 256;
/// Maximum number of bytes of a list and of a token.
const LIST_MAX: usize = 64 << 10;
const TOKEN_MAX: usize = 512;

/// The address of a node that a dashboard shows, and the token that the node demands, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(super) token: Option<Token>,
}

/// A token, which is not printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(pub(super) String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for NodeAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected HOST:PORT, the address of [metrics] or [control] of a node, \
                        such as 10.0.0.7:9100 or [2001:db8::7]:9100";
        let wrong = |what: &str| Err(format!("found {text:?}, {what}; {expected}"));
        if text.contains("://") || text.contains('/') {
            return wrong("which is a URL");
        }
        let Some((host, port)) = text.rsplit_once(':') else { return wrong("without a port") };
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = inner.unwrap_or(host);
        if host.contains(':') && inner.is_none() {
            return wrong("with an IPv6 address that is not in brackets");
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        if host.is_empty() || host.len() > 253 || !host.chars().all(is_plain) {
            return wrong("without the name or the address of a host");
        }
        match port.parse() {
            Ok(port @ 1..) => Ok(Self { host: host.to_owned(), port, token: None }),
            _ => wrong("whose port is no number from 1 to 65535"),
        }
    }
}

/// Reads a list of nodes: a line with `HOST:PORT` for each, and behind it the path of a file with a
/// token, if the node demands one. Relative paths begin at the directory of the list. Empty lines
/// are skipped, and what follows a `#`.
///
/// # Errors
/// A text that names the line and the remedy.
pub fn read_nodes(path: &Path) -> Result<Vec<NodeAddress>, String> {
    let shown = path.display();
    let text = read(path, LIST_MAX)?;
    let mut nodes = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(address) = line.split_whitespace().next() else { continue };
        let wrong = |message: String| format!("{shown}:{}: {message}", at + 1);
        let mut node: NodeAddress = address.parse().map_err(wrong)?;
        let file = line[address.len()..].trim();
        if !file.is_empty() {
            let file = path.parent().unwrap_or(Path::new("")).join(file);
            node.token = Some(token(&file).map_err(wrong)?);
        }
        nodes.push(node);
    }
    if nodes.is_empty() {
        return Err(format!("{shown}: found no node; expected a line with HOST:PORT for each"));
    }
    Ok(nodes)
}

/// Checks the nodes of a dashboard together.
///
/// # Errors
/// A node is there twice, or there are too many.
pub(crate) fn check(nodes: &[NodeAddress]) -> Result<(), String> {
    if nodes.len() > NODES_MAX {
        return Err(format!("found {} nodes; expected at most {NODES_MAX}", nodes.len()));
    }
    let mut known = BTreeMap::new();
    for node in nodes {
        if known.insert(node.to_string(), ()).is_some() {
            return Err(format!("duplicate node {node}; name each node once"));
        }
    }
    Ok(())
}

fn read(path: &Path, max: usize) -> Result<String, String> {
    use std::io::Read;
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(wrong)?;
    let mut text = String::new();
    file.take(max as u64 + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() > max {
        return Err(format!("{}: found more than {max} bytes", path.display()));
    }
    Ok(text)
}

fn token(path: &Path) -> Result<Token, String> {
    let text = read(path, TOKEN_MAX).map_err(|error| format!("the file of the token: {error}"))?;
    let token = text.trim();
    // Anything else could end the header of the request.
    if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
        let shown = path.display();
        return Err(format!("{shown}: found no token; expected printable ASCII without white space"));
    }
    Ok(Token(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_wrong_ones_say_why() {
        for text in ["10.0.0.7:9100", "node-3.example:1", "[2001:db8::7]:65535", "localhost:80"] {
            assert_eq!(text.parse::<NodeAddress>().unwrap().to_string(), text);
        }
        for (text, what) in [
            ("", "without a port"),
            ("10.0.0.7", "without a port"),
            ("10.0.0.7:", "whose port is no number"),
            ("10.0.0.7:0", "whose port is no number"),
            ("10.0.0.7:65536", "whose port is no number"),
            (":9100", "without the name"),
            ("2001:db8::7:9100", "not in brackets"),
            ("http://10.0.0.7:9100", "which is a URL"),
            ("10.0.0.7:9100/metrics", "which is a URL"),
            ("a b:1", "without the name"),
            ("a\r\nx:1", "without the name"),
        ] {
            let error = text.parse::<NodeAddress>().unwrap_err();
            assert!(error.contains(what) && error.contains("such as 10.0.0.7:9100"), "{error}");
        }
    }

    #[test]
    fn lists_have_tokens_and_errors_have_lines() {
        let directory = std::env::temp_dir().join(format!("samara-nodes-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (list, secret) = (directory.join("nodes.txt"), directory.join("a.token"));
        std::fs::write(&secret, "0123456789abcdef\n").unwrap();
        let parse = |text: &str| {
            std::fs::write(&list, text).unwrap();
            read_nodes(&list)
        };
        let nodes = parse("# the pool\n10.0.0.1:9100   # Bern\n\n10.0.0.2:9100 a.token\n").unwrap();
        assert_eq!((nodes.len(), &nodes[0].token), (2, &None));
        assert_eq!(nodes[1].token.as_ref().map(|token| token.0.as_str()), Some("0123456789abcdef"));
        assert!(!format!("{nodes:?}").contains("0123"), "a token is not printed");
        for (text, what) in [
            ("\n# none\n", "found no node"),
            ("10.0.0.1:9100\n10.0.0.2\n", "nodes.txt:2: found \"10.0.0.2\", without a port"),
            ("10.0.0.1:9100 b.token\n", "nodes.txt:1: the file of the token: "),
            ("10.0.0.1:9100 nodes.txt\n", "nodes.txt: found no token"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        let twice = ["a:1", "b:1", "a:1"].map(|text| text.parse().unwrap());
        assert_eq!(check(&twice).unwrap_err(), "duplicate node a:1; name each node once");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
