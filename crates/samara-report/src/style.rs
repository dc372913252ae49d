//! How things are told apart: a colour and a dash pattern each, the same in all figures of a report.

/// How a run looks in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Which of the [`COLOURS`]; counted modulo their number.
    pub colour: u8,
    /// Which of the [`DASHES`]; counted modulo their number.
    pub dash: u8,
}

impl Style {
    /// The style of the `index`-th of many: colours first, then dashes.
    pub fn nth(index: usize) -> Self {
        Self { colour: (index % COLOURS.len()) as u8, dash: (index / COLOURS.len() % DASHES.len()) as u8 }
    }

    pub(crate) fn colour_index(self) -> usize {
        usize::from(self.colour) % COLOURS.len()
    }

    pub(crate) fn dashes(self) -> &'static [u8] {
        DASHES[usize::from(self.dash) % DASHES.len()]
    }
}

/// A colour on white and on dark ground, as `#rrggbb`. Each has a contrast of at least 4.5 to 1 with its ground (a test checks
/// that), and neighbours differ in lightness, so that they can be told apart without seeing colours.
pub const COLOURS: [(&str, &str); 8] = [
    ("#b3401f", "#f4936b"),
    ("#0b62a8", "#64b2ee"),
    ("#00775b", "#45c79e"),
    ("#7b4397", "#c99be2"),
    ("#8a6100", "#deb14a"),
    ("#b02a68", "#f08bb4"),
    ("#056f86", "#5ac8dc"),
    ("#58606b", "#aab4c0"),
];

/// Lengths of dashes and gaps, in pixels. The first is a line without gaps.
pub const DASHES: [&[u8]; 4] = [&[], &[7, 4], &[2, 3], &[9, 3, 2, 3]];

/// The ground of the page, light and dark.
pub(crate) const GROUND: (&str, &str) = ("#ffffff", "#14171c");

/// Viridis (van der Walt and Smith 2015, CC0) at 16 equidistant points: evenly spaced in lightness, also for those who do not
/// see all colours.
pub(crate) const VIRIDIS: [[u8; 3]; 16] = [
    [68, 1, 84],
    [72, 26, 108],
    [71, 47, 125],
    [65, 68, 135],
    [57, 86, 140],
    [49, 104, 142],
    [42, 120, 142],
    [35, 136, 142],
    [31, 152, 139],
    [34, 168, 132],
    [53, 183, 121],
    [84, 197, 104],
    [122, 209, 81],
    [165, 219, 54],
    [210, 226, 27],
    [253, 231, 37],
];

/// The part of the map that is told from a white and from a dark ground.
pub(crate) const MAP_RANGE: ((f64, f64), (f64, f64)) = ((0.0, 0.86), (0.22, 1.0));

/// A colour of the map for a value in `0..=1`, on white ground.
pub(crate) fn map(value: f64) -> [u8; 3] {
    let (from, to) = MAP_RANGE.0;
    let at = (from + value.clamp(0.0, 1.0) * (to - from)) * (VIRIDIS.len() - 1) as f64;
    let below = (at as usize).min(VIRIDIS.len() - 2);
    let part = at - below as f64;
    std::array::from_fn(|channel| {
        let (a, b) = (f64::from(VIRIDIS[below][channel]), f64::from(VIRIDIS[below + 1][channel]));
        (a + (b - a) * part).round() as u8
    })
}

/// The contrast of two colours: 1 to 21 (WCAG 2.1, "contrast ratio").
pub(crate) fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (f64::max(a, b) + 0.05) / (f64::min(a, b) + 0.05)
}

/// How light a colour is, in `0..=1` (WCAG 2.1, "relative luminance").
fn luminance(colour: [u8; 3]) -> f64 {
    let [r, g, b] = colour.map(|channel| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rgb(text: &str) -> [u8; 3] {
        std::array::from_fn(|channel| {
            u8::from_str_radix(&text[1 + 2 * channel..3 + 2 * channel], 16).expect("colours are hexadecimal")
        })
    }

    #[test]
    fn lines_and_letters_stand_out_from_both_grounds() {
        for (light, dark) in COLOURS {
            assert!(contrast(rgb(light), rgb(GROUND.0)) >= 4.5, "{light} on white");
            assert!(contrast(rgb(dark), rgb(GROUND.1)) >= 4.5, "{dark} on dark");
        }
    }

    #[test]
    fn black_and_white_have_the_contrast_that_the_standard_says() {
        assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
    }

    #[test]
    fn the_map_gets_lighter_all_the_way() {
        let lights: Vec<f64> = VIRIDIS.iter().map(|colour| luminance(*colour)).collect();
        assert!(lights.windows(2).all(|pair| pair[0] < pair[1]), "{lights:?}");
    }
}
