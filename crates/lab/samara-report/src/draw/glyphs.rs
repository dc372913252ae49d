//! Outlines of the glyphs of a TrueType font.

use std::iter::repeat_n;

use tiny_skia::PathBuilder;

/// A TrueType font with the features of Ubuntu Light only: a first character map of format 4, long
/// offsets to glyphs, and compound glyphs whose parts are shifted, but neither scaled nor rotated.
/// Bytes outside of the font read as 0.
pub(super) struct Font(pub(super) &'static [u8]);

impl Font {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    fn word(&self, at: usize) -> usize {
        u16::from_be_bytes(self.bytes(at)).into()
    }

    fn signed(&self, at: usize) -> i32 {
        i16::from_be_bytes(self.bytes(at)).into()
    }

    fn long(&self, at: usize) -> usize {
        u32::from_be_bytes(self.bytes(at)) as usize
    }

    fn table(&self, tag: &[u8; 4]) -> usize {
        let mut entries = (0..self.word(4)).map(|i| 12 + 16 * i);
        entries.find(|at| self.bytes::<4>(*at) == *tag).map_or(0, |at| self.long(at + 8))
    }

    /// The number of a character's glyph. It is 0, an empty box, if the font lacks the character.
    pub(super) fn glyph(&self, character: char) -> usize {
        let code = character as usize;
        let map = self.table(b"cmap");
        let map = map + self.long(map + 8);
        let (size, ends) = (self.word(map + 6), map + 14);
        let Some(range) = (ends..ends + size).step_by(2).find(|end| self.word(*end) >= code) else {
            return 0;
        };
        let [start, delta, offset] = [1, 2, 3].map(|column| range + 2 + column * size);
        let first = self.word(start);
        let glyph = match self.word(offset) {
            _ if code < first => return 0,
            0 => code,
            way => match self.word(offset + way + 2 * (code - first)) {
                0 => return 0,
                glyph => glyph,
            },
        };
        (glyph + self.word(delta)) & 0xffff
    }

    /// Distance from this glyph to the next one, relative to the font's size.
    pub(super) fn advance(&self, glyph: usize) -> f32 {
        self.word(self.table(b"hmtx") + 4 * glyph) as f32 / self.units()
    }

    fn units(&self) -> f32 {
        self.word(self.table(b"head") + 18) as f32
    }

    /// Adds the outline of a glyph at a position on the baseline, in a size.
    pub(super) fn outline(&self, glyph: usize, (x, y): (f32, f32), size: f32, path: &mut PathBuilder) {
        let place = self.table(b"loca") + 4 * glyph;
        if self.long(place) == self.long(place + 4) {
            return;
        }
        let scale = size / self.units();
        let mut at = self.table(b"glyf") + self.long(place) + 10;
        let contours = self.signed(at - 10);
        if contours < 0 {
            loop {
                let (flags, part) = (self.word(at), self.word(at + 2));
                let (right, up) = if flags & 1 == 0 {
                    let [right, up] = self.bytes(at + 4).map(|byte: u8| i32::from(byte.cast_signed()));
                    (right, up)
                } else {
                    (self.signed(at + 4), self.signed(at + 6))
                };
                self.outline(part, (x + right as f32 * scale, y - up as f32 * scale), size, path);
                at += if flags & 1 == 0 { 6 } else { 8 };
                if flags & 0x20 == 0 {
                    return;
                }
            }
        }
        let ends: Vec<usize> = (0..contours as usize).map(|i| self.word(at + 2 * i) + 1).collect();
        let count = ends.last().copied().unwrap_or(0);
        at += 2 * ends.len();
        at += 2 + self.word(at);
        let mut flags = Vec::new();
        while flags.len() < count {
            let [flag, repeats] = self.bytes(at);
            let repeats = if flag & 8 == 0 { 0 } else { repeats };
            flags.extend(repeat_n(flag, 1 + usize::from(repeats)));
            at += if flag & 8 == 0 { 1 } else { 2 };
        }
        // Differences of coordinates: a byte whose sign is a flag, a word, or none.
        let mut coordinates = |short: u8, same: u8| -> Vec<f32> {
            let mut value = 0;
            let next = |flag: &u8| {
                let (step, bytes) = match (flag & short != 0, flag & same != 0) {
                    (true, is_positive) => {
                        let [step] = self.bytes(at).map(i32::from);
                        (if is_positive { step } else { -step }, 1)
                    }
                    (false, true) => (0, 0),
                    (false, false) => (self.signed(at), 2),
                };
                at += bytes;
                value += step;
                value as f32 * scale
            };
            flags.iter().map(next).collect()
        };
        let (xs, ys) = (coordinates(2, 16), coordinates(4, 32));
        let points: Vec<(f32, f32)> = xs.iter().zip(&ys).map(|(right, up)| (x + right, y - up)).collect();
        let is_corner = |i: usize| flags[i] & 1 != 0;
        // The font omits the point of the curve halfway between two control points.
        let toward = |from: usize, to: usize| match is_corner(to) {
            true => points[to],
            false => (points[from].0.midpoint(points[to].0), points[from].1.midpoint(points[to].1)),
        };
        let mut first = 0;
        for end in ends {
            let mut before = end - 1;
            let start = if is_corner(first) { points[first] } else { toward(first, before) };
            path.move_to(start.0, start.1);
            for (i, point) in points.iter().enumerate().take(end).skip(first) {
                let next = toward(i, if i + 1 == end { first } else { i + 1 });
                match (is_corner(before), is_corner(i)) {
                    (true, true) => path.line_to(point.0, point.1),
                    (false, true) => {}
                    (_, false) => path.quad_to(point.0, point.1, next.0, next.1),
                }
                before = i;
            }
            path.close();
            first = end;
        }
    }
}
