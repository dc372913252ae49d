//! Exact decimal numbers with a unit.

/// A unit and how many of the smallest units of its kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// As it is written.
    pub(super) name: &'static str,
    /// In the smallest unit.
    pub(super) factor: u64,
}

/// A number as it was written: `digits / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u128,
    scale: u32,
}

/// Why an amount is not a whole number of the smallest unit that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inexact {
    /// It is finer than the smallest unit.
    TooFine,
    /// It is larger than can be held.
    TooLarge,
}

impl Decimal {
    /// The most digits that a number may have: more do not fit the arithmetic, and nobody means them.
    const DIGITS_MAX: usize = 24;

    /// Reads digits with at most one point and single underscores between digits. `None` of anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mut digits, mut scale, mut point, mut previous) = (0u128, 0, false, '_');
        let mut count = 0;
        for letter in text.chars() {
            match letter {
                '0'..='9' => {
                    digits = digits * 10 + u128::from(letter as u32 - '0' as u32);
                    scale += u32::from(point);
                    count += 1;
                }
                '.' if !point && previous.is_ascii_digit() => point = true,
                '_' if previous.is_ascii_digit() => {}
                _ => return None,
            }
            if count > Self::DIGITS_MAX {
                return None;
            }
            previous = letter;
        }
        previous.is_ascii_digit().then_some(Self { digits, scale })
    }

    /// So many of a unit, in the smallest one.
    pub(super) fn times(self, unit: Unit) -> Result<u64, Inexact> {
        let product = self.digits.checked_mul(u128::from(unit.factor)).ok_or(Inexact::TooLarge)?;
        let divisor = 10u128.pow(self.scale);
        if product % divisor != 0 {
            return Err(Inexact::TooFine);
        }
        u64::try_from(product / divisor).map_err(|_| Inexact::TooLarge)
    }
}

/// `value / factor` with all its decimals, `None` if they have no end.
pub(super) fn quotient(value: u64, factor: u64) -> Option<String> {
    let (whole, mut rest) = (value / factor, value % factor);
    if rest == 0 {
        return Some(whole.to_string());
    }
    let mut text = format!("{whole}.");
    // A quotient that ends at all ends before this many decimals: the factors are below 2^64.
    for _ in 0..64 {
        let shifted = u128::from(rest) * 10;
        text.push(char::from(b'0' + (shifted / u128::from(factor)) as u8));
        rest = (shifted % u128::from(factor)) as u64;
        if rest == 0 {
            return Some(text);
        }
    }
    None
}
