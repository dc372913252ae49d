//! Text of others in messages: without control characters, and of a bounded length.

use std::borrow::Cow;

/// Maximum number of characters that a message quotes in one place.
pub const QUOTE_MAX: usize = 200;
/// Maximum number of characters of a line of a message, and of its lines.
const LINE_MAX: usize = 2_000;
const LINES_MAX: usize = 100;

/// Returns true for characters that change what a terminal shows, or that XML cannot contain: C0 and
/// C1 without tabs and ends of lines, the controls of the direction of text, and U+FFFE and U+FFFF.
pub fn is_control(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => true,
        c => c.is_control(),
    }
}

/// Returns the message about the first control character of a text.
pub fn control(text: &str) -> Option<String> {
    let c = text.chars().find(|c| is_control(*c))?;
    Some(format!("has the control character U+{:04X}; remove it", u32::from(c)))
}

/// As [`control`] for a name, which is on one line.
pub fn control_of_name(name: &str) -> Option<String> {
    // Most names and cells of tables need no look at their characters.
    if name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return None;
    }
    let end = name.chars().find(|c| matches!(c, '\n' | '\r'));
    let of_line = |c| format!("has the control character U+{:04X}; remove it", u32::from(c));
    end.map(of_line).or_else(|| control(name))
}

/// Replaces control characters by their numbers, as in JSON and TOML. Tabs and ends of lines stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c == '\r' || is_control(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            printable += &format!("\\u{:04x}", u32::from(c));
        } else {
            printable.push(c);
        }
    }
    Cow::Owned(printable)
}

/// Returns the first [`QUOTE_MAX`] characters of a text, with a mark if there are more.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTE_MAX) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// Shortens what a message quotes: words, and texts in quotes. Also bounds its lines.
pub fn bounded(message: &str) -> String {
    let mut lines = message.lines();
    let mut bounded: Vec<String> = lines.by_ref().take(LINES_MAX).map(bounded_line).collect();
    let more = lines.count();
    if more > 0 {
        bounded.push(format!("… and {more} more lines"));
    }
    bounded.join("\n")
}

fn bounded_line(line: &str) -> String {
    let mut bounded = String::new();
    // The quote around this place, and the number of characters since it, or since the last blank.
    let (mut quote, mut since, mut count) = (None, 0, 0);
    for (at, c) in line.char_indices() {
        let is_quoted = match quote {
            Some(open) if c == open => {
                (quote, since) = (None, 0);
                false
            }
            Some(_) => true,
            None if c.is_whitespace() => {
                since = 0;
                false
            }
            None if (c == '"' || c == '`') && line[at + 1..].contains(c) => {
                (quote, since) = (Some(c), 0);
                false
            }
            None => true,
        };
        since += usize::from(is_quoted);
        if is_quoted && since > QUOTE_MAX {
            if since == QUOTE_MAX + 1 {
                bounded.push('…');
            }
            continue;
        }
        count += 1;
        if count > LINE_MAX {
            bounded.push('…');
            break;
        }
        bounded.push(c);
    }
    bounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_numbers() {
        let text = "a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}b\u{2066}\u{7f}\r\tc\nö…";
        let expected = "a\\u001b]0;x\\u0007\\u009b2J\\u202eb\\u2066\\u007f\\u000d\tc\nö…";
        assert_eq!(printable(text), expected);
        assert_eq!(printable(expected), expected);
        assert_eq!(control("a\u{9b}"), Some("has the control character U+009B; remove it".to_owned()));
        assert_eq!(control("a b\tc\r\nö\u{200b}"), None);
        assert_eq!(control_of_name("a\tb~ö\u{200b}"), None);
        for name in ["a\nb", "ö\r", "a\u{1b}b", "\u{202e}"] {
            assert!(control_of_name(name).is_some_and(|why| why.contains("control character")), "{name:?}");
        }
    }

    #[test]
    fn messages_quote_at_most_200_characters() {
        let (long, spaced) = ("é".repeat(10_000), "two words ".repeat(1_000));
        for (message, most) in [
            (format!("file.toml: key {long}: unknown"), 230),
            (format!("found \"{spaced}\"; expected `a` or `b`"), 240),
            (format!("unknown node `{spaced}`"), 220),
            (spaced.clone(), LINE_MAX + 1),
        ] {
            let bounded = bounded(&message);
            assert!(bounded.chars().count() <= most, "{}", bounded.chars().count());
            assert!(bounded.contains('…'));
        }
        assert_eq!(shortened(&long).chars().count(), QUOTE_MAX + 1);
        let lines = bounded(&"line\n".repeat(5_000));
        assert!(lines.ends_with("… and 4900 more lines"), "{lines}");
        let usual = "s.toml:3: a.b: found \"5\" wide\"; expected one of `a`, `b`\n  3 | b = \"5";
        assert_eq!(bounded(usual), usual);
    }
}
