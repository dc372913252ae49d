//! Messages from a table: when, by whom, how large.

use std::sync::Arc;

use samara_engine::units::{Size, Span};
use samara_scenario::Inputs;
use samara_scenario::table::{Quantity, Shape, scan};

/// Messages of a run: what is known of each and of its deliveries is kept in memory.
pub const MESSAGES_MAX: usize = 10_000_000;
/// Payloads of all messages, which are in memory, too.
const BYTES_MAX: u64 = 4 << 30;

const SHAPE: Shape = Shape {
    needed: &["at"],
    allowed: &["publisher", "size"],
    units: &[("at", Span::UNITS), ("size", Size::UNITS)],
    rows_max: MESSAGES_MAX,
};

/// The messages of a table, by time; those of the same time in the order of their rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageTable {
    /// Nanoseconds from the end of the warm-up to each publication.
    pub at: Vec<u64>,
    /// By whom; `None` if the file does not say.
    pub publishers: Option<Vec<u32>>,
    /// Payload bytes; `None` if the file does not say.
    pub sizes: Option<Vec<u64>>,
}

impl MessageTable {
    /// Reads a file with a row for each message. `find` knows the numbers of hosts, and has a name that tells it from others; `sizes` are the
    /// least and the most bytes of a message.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong; the message names file and line.
    pub fn read(
        file: &str,
        inputs: &Inputs,
        (hosts, find): (&str, impl Fn(&str) -> Result<u32, String>),
        sizes: (u64, u64),
    ) -> Result<Arc<Self>, String> {
        let key = format!("messages {file} {hosts} {sizes:?}");
        inputs.made(&key, || Self::parse(file, &inputs.read(file)?, find, sizes))
    }

    fn parse(
        file: &str,
        text: &str,
        find: impl Fn(&str) -> Result<u32, String>,
        (least, most): (u64, u64),
    ) -> Result<Self, String> {
        let mut rows: Vec<(u64, Option<u32>, Option<u64>)> = Vec::new();
        scan(file, text, &SHAPE, |row| {
            let at = row.quantity::<Span>("at")?.unwrap_or_default().nanos();
            let publisher = row.text("publisher")?.map(&find).transpose().map_err(|why| row.wrong(why))?;
            let size = row.quantity::<Size>("size")?.map(Size::bytes);
            if let Some(size) = size.filter(|size| !(least..=most).contains(size)) {
                return Err(row.wrong(format_args!("size is {size} B; allowed is {least} to {most}")));
            }
            rows.push((at, publisher, size));
            Ok(())
        })?;
        let bytes = rows.iter().filter_map(|(.., size)| *size).sum::<u64>();
        if bytes > BYTES_MAX {
            return Err(format!("{file}: the messages have {bytes} B together; at most {BYTES_MAX}"));
        }
        // Stable: those of the same time stay as they are.
        rows.sort_by_key(|(at, ..)| *at);
        Ok(Self {
            at: rows.iter().map(|(at, ..)| *at).collect(),
            publishers: rows.iter().map(|(_, publisher, _)| *publisher).collect(),
            sizes: rows.iter().map(|(.., size)| *size).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<Arc<MessageTable>, String> {
        let find = |name: &str| name.parse().map_err(|_| format!("no host {name}"));
        MessageTable::read("m.csv", &Inputs::default().with("m.csv", text), ("numbers", find), (4, 1_000))
    }

    #[test]
    fn messages_come_by_time_then_by_row() {
        let read = table("at_s,publisher,size\n2,1,4 B\n0.5,7,5 B\n2,0,6 B\n").expect("is right");
        assert_eq!(read.at, [500_000_000, 2_000_000_000, 2_000_000_000]);
        assert_eq!(read.publishers, Some(vec![7, 1, 0]));
        assert_eq!(read.sizes, Some(vec![5, 4, 6]));
        let bare = table("at\n0 ms\n").expect("is right");
        assert_eq!((bare.publishers.as_ref(), bare.sizes.as_ref()), (None, None));
    }

    #[test]
    fn mistakes_have_their_lines() {
        let error = |text: &str| table(text).expect_err("something is wrong");
        assert_eq!(error("at_ms,publisher\n1,x\n"), "m.csv:2: no host x");
        assert_eq!(error("at_ms,size\n\n1,3 B\n"), "m.csv:3: size is 3 B; allowed is 4 to 1000");
        assert_eq!(
            error("publisher\n1\n"),
            "m.csv:1: the column at is missing; expected a header with at, publisher (optional), size (optional)"
        );
    }
}
