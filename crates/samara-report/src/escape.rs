//! Texts in HTML, SVG and scripts.

use std::borrow::Cow;

/// A text as content or attribute value of HTML and XML. Control characters that XML does not know are left out.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'') || is_forbidden(c);
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_forbidden(c) => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// See the production `Char` of XML 1.0.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// A text in which `code` and **strong words** are marked.
pub(crate) fn prose(marked: &str) -> String {
    let mut out = String::new();
    for (index, piece) in marked.split('`').enumerate() {
        // A backtick without its partner stands for itself.
        let is_last = index == marked.matches('`').count();
        match index % 2 {
            1 if is_last => {
                out.push('`');
                out.push_str(&strong(piece));
            }
            1 => {
                out.push_str("<code>");
                out.push_str(&text(piece));
                out.push_str("</code>");
            }
            _ => out.push_str(&strong(piece)),
        }
    }
    out
}

fn strong(marked: &str) -> String {
    let pieces: Vec<&str> = marked.split("**").collect();
    let mut out = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        let is_unclosed = index % 2 == 1 && index == pieces.len() - 1;
        match index % 2 {
            1 if is_unclosed => {
                out.push_str("**");
                out.push_str(&text(piece));
            }
            1 => {
                out.push_str("<strong>");
                out.push_str(&text(piece));
                out.push_str("</strong>");
            }
            _ => out.push_str(&text(piece)),
        }
    }
    out
}

/// A marked text without its marks.
pub(crate) fn plain(marked: &str) -> String {
    marked.replace("**", "").replace('`', "")
}

/// JSON that can stand in a `script` element: nothing in it can end the element or begin a comment.
pub(crate) fn script(json: &str) -> String {
    // These signs occur in JSON only within strings, where an escape means the same.
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
