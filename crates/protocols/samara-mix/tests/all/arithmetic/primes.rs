//! The moduli, recomputed from the formula of RFC 3526, and tested to be safe primes.

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U256, U2048, U4096, Uint};

const SOURCE: &str = include_str!("../../../src/group/mod.rs");

/// Returns the hexadecimal digits of a constant in the source.
fn constant(name: &str) -> String {
    let from = SOURCE.find(&format!("        {name},\n        \"")).unwrap();
    let literal = SOURCE[from..].split('"').nth(1).unwrap();
    literal.chars().filter(char::is_ascii_hexdigit).collect()
}

/// A natural number, with limbs of 32 bits, the least significant first, and only the operations of
/// Machin's formula.
#[derive(Clone, PartialEq)]
struct Natural(Vec<u32>);

impl Natural {
    fn divide(&mut self, by: u64) -> &Self {
        let mut rest = 0u128;
        for limb in self.0.iter_mut().rev() {
            let part = rest << 32 | u128::from(*limb);
            *limb = (part / u128::from(by)) as u32;
            rest = part % u128::from(by);
        }
        self
    }

    fn multiply(&mut self, by: u64) {
        let mut carry = 0u128;
        for limb in &mut self.0 {
            carry += u128::from(*limb) * u128::from(by);
            *limb = carry as u32;
            carry >>= 32;
        }
        assert_eq!(carry, 0);
    }

    fn add(&mut self, other: &Self, sign: i64) {
        let mut carry = 0i64;
        for (limb, other) in self.0.iter_mut().zip(&other.0) {
            let sum = i64::from(*limb) + sign * i64::from(*other) + carry;
            *limb = sum as u32;
            carry = sum >> 32;
        }
    }
}

/// Returns `4 * arctan(1/x)` times 2^(32 * (limbs - 1)).
fn arctan(x: u64, limbs: usize, times: u64) -> Natural {
    let mut power = Natural(vec![0; limbs]);
    power.0[limbs - 1] = 1;
    power.multiply(times);
    power.divide(x);
    let mut sum = power.clone();
    for (index, odd) in (3u64..).step_by(2).enumerate() {
        power.divide(x * x);
        if power.0.iter().all(|limb| *limb == 0) {
            return sum;
        }
        sum.add(power.clone().divide(odd), if index % 2 == 0 { -1 } else { 1 });
    }
    unreachable!("the powers decrease to zero")
}

/// Returns `[2^bits * pi]`, by Machin: pi = 16 arctan(1/5) - 4 arctan(1/239).
fn pi(bits: usize) -> Vec<u32> {
    let fraction = bits.div_ceil(32) + 4;
    let mut pi = arctan(5, fraction + 1, 16);
    pi.add(&arctan(239, fraction + 1, 4), -1);
    let shift = 32 * fraction - bits;
    let (limbs, rest) = (shift / 32, shift % 32);
    let bit = |index: usize| pi.0.get(index / 32).map_or(0, |limb| limb >> (index % 32) & 1);
    (0..(bits + 2).div_ceil(32))
        .map(|limb| (0..32).map(|at| bit(32 * (limb + limbs) + rest + at) << at).sum())
        .collect()
}

/// Returns `2^n - 2^(n-64) - 1 + 2^64 ([2^(n-130) pi] + k)`.
fn rfc_3526<const LIMBS: usize>(k: u32) -> Uint<LIMBS> {
    let bits = Uint::<LIMBS>::BITS;
    let mut middle = Uint::<LIMBS>::ZERO;
    for (index, limb) in pi(bits as usize - 130).into_iter().enumerate() {
        middle |= Uint::from_u32(limb).shl_vartime(32 * index as u32);
    }
    let middle = middle.wrapping_add(&Uint::from_u32(k)).shl_vartime(64);
    // 2^n is 0 in this arithmetic.
    Uint::ZERO.wrapping_sub(&Uint::ONE.shl_vartime(bits - 64)).wrapping_sub(&Uint::ONE).wrapping_add(&middle)
}

/// The test of Miller and Rabin with the first bases.
fn is_prime<const LIMBS: usize>(number: &Uint<LIMBS>, bases: &[u8]) -> bool {
    let params = FixedMontyParams::new_vartime(Odd::new(*number).unwrap());
    let less = number.wrapping_sub(&Uint::ONE);
    let twos = less.trailing_zeros_vartime();
    let odd = less.shr_vartime(twos);
    let (one, minus_one) = (FixedMontyForm::one(&params), FixedMontyForm::one(&params).neg());
    bases.iter().all(|base| {
        let mut power = FixedMontyForm::new(&Uint::from_u8(*base), &params).pow_vartime(&odd);
        if power == one || power == minus_one {
            return true;
        }
        (1..twos).any(|_| {
            power = power.square();
            power == minus_one
        })
    })
}

fn check<const LIMBS: usize>(prime: &Uint<LIMBS>, bases: &[u8]) {
    assert!(is_prime(prime, bases));
    assert!(is_prime(&prime.shr_vartime(1), bases));
    // 2 is a square, and -1 is not.
    assert_eq!(prime.as_words()[0] % 8, 7);
}

#[test]
fn constants_match_the_formula() {
    assert_eq!(U2048::from_be_hex(&constant("U2048")), rfc_3526::<{ U2048::LIMBS }>(124_476));
    assert_eq!(U4096::from_be_hex(&constant("U4096")), rfc_3526::<{ U4096::LIMBS }>(240_904));
}

#[test]
fn moduli_are_safe_primes_and_two_is_a_square() {
    check(&U256::from_be_hex(&constant("crypto_bigint::U256")), &[2, 3, 5, 7, 11, 13, 17, 19]);
    check(&U2048::from_be_hex(&constant("U2048")), &[2, 3, 5, 7]);
    check(&U4096::from_be_hex(&constant("U4096")), &[2, 3]);
}

#[test]
fn detects_composite_numbers() {
    assert!(!is_prime(&U256::from_u64(561), &[2, 3]));
    assert!(is_prime(&U256::from_u64(1_000_000_007), &[2, 3, 5]));
}
