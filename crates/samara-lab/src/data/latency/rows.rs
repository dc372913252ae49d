//! Lines of values between delimiters or blanks.

use csv::{ReaderBuilder, StringRecord, Trim};

/// Tells each line that has something in it: its number and its values. `delimiter` is `None` for blanks. Lines that start with `#` or
/// `//` are comments.
pub(in crate::data) fn each(
    text: &str,
    delimiter: Option<u8>,
    mut tell: impl FnMut(u64, &[&str]) -> Result<(), String>,
) -> Result<(), String> {
    let is_comment = |line: &str| line.starts_with('#') || line.starts_with("//");
    let Some(delimiter) = delimiter else {
        for (line, number) in text.lines().zip(1..) {
            let values: Vec<&str> = line.split_whitespace().collect();
            if !values.is_empty() && !is_comment(values[0]) {
                tell(number, &values)?;
            }
        }
        return Ok(());
    };
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .delimiter(delimiter)
        .trim(Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| error.to_string())? {
        let values: Vec<&str> = record.iter().collect();
        if !is_comment(values[0]) && values.iter().any(|value| !value.is_empty()) {
            tell(line_of(text, &record, false), &values)?;
        }
    }
    Ok(())
}

/// The line of a record: its position is that of blank lines before it, and of comments.
pub(in crate::data) fn line_of(text: &str, record: &StringRecord, has_comments: bool) -> u64 {
    let Some(position) = record.position() else { return 0 };
    let before = text.get(position.byte() as usize..).unwrap_or_default().split('\n');
    let is_none =
        |line: &&str| line.trim_end_matches('\r').is_empty() || (has_comments && line.starts_with('#'));
    position.line() + before.take_while(is_none).count() as u64
}

/// What separates values: a delimiter that the first lines have, or blanks.
pub(in crate::data) fn delimiter(text: &str) -> Option<u8> {
    let data = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#') && !line.starts_with("//")
    });
    // Data of edges may be dictionaries, which have commas of their own.
    let begin = |line: &'_ str| line.split('{').next().unwrap_or_default().to_owned();
    let first = data.take(2).map(begin).collect::<Vec<_>>().join("\n");
    [b',', b';', b'\t'].into_iter().find(|delimiter| first.bytes().any(|byte| byte == *delimiter))
}
