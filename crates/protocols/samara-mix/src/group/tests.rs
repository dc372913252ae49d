//! Comparisons with the library's own exponentiation, and algebraic properties.

use crypto_bigint::{U256, U2048, Uint};

use super::field::{Field, Form, Modulus, Table};
use super::{Modp2048, Modp4096, Small256};
use crate::secret::Secret;

fn powers_agree<M: Modulus<LIMBS>, const LIMBS: usize>(rounds: u32) {
    let mut stream = Secret::new([7; 32]).stream("test", 0);
    for _ in 0..rounds {
        let base = Field::<M, LIMBS>::random(&mut stream);
        let table = Table::<M, LIMBS>::new(&base);
        let exponent = Field::<M, LIMBS>::random_exponent_bytes(&mut stream);
        let mut padded = vec![0; Field::<M, LIMBS>::BYTES - exponent.len()];
        padded.extend_from_slice(&exponent);
        let number = Uint::<LIMBS>::from_be_slice(&padded);
        assert_eq!(table.power(&exponent), base.pow(&number));
        let power = Field::<M, LIMBS>::power(&base.retrieve(), &number, M::EXPONENT_BITS);
        assert_eq!(power, base.pow(&number).retrieve());
    }
}

#[test]
fn tables_and_powers_agree_with_the_library() {
    powers_agree::<Small256, { U256::LIMBS }>(50);
    powers_agree::<Modp2048, { U2048::LIMBS }>(3);
    powers_agree::<Modp4096, { crypto_bigint::U4096::LIMBS }>(1);
}

#[test]
fn multiplication_ignores_the_choice_of_representative() {
    type F = Field<Small256, { U256::LIMBS }>;
    let mut stream = Secret::new([8; 32]).stream("test", 0);
    let modulus = Form::<Small256, { U256::LIMBS }>::MODULUS.get();
    for _ in 0..100 {
        let (a, b) = (F::random(&mut stream).to_montgomery(), F::random(&mut stream));
        let minus = modulus.wrapping_sub(&a);
        assert_eq!(F::fold(&a), F::fold(&minus));
        assert_eq!(F::fold(&F::times(&a, &b)), F::fold(&F::times(&minus, &b)));
        assert_eq!(Form::<Small256, { U256::LIMBS }>::new(&a).mul(&b).retrieve(), F::times(&a, &b));
        let mut bytes = Vec::new();
        F::write(&minus, &mut bytes);
        assert_eq!(F::read(&bytes), Some(F::fold(&a)));
    }
}

#[test]
fn reads_only_elements() {
    type F = Field<Small256, { U256::LIMBS }>;
    let bytes = |number: U256| number.to_be_bytes().as_ref().to_vec();
    assert_eq!(F::read(&bytes(U256::ZERO)), None);
    assert_eq!(F::read(&bytes(U256::ONE)), Some(U256::ONE));
    assert_eq!(F::read(&bytes(F::order())), Some(F::order()));
    assert_eq!(F::read(&bytes(F::order().wrapping_add(&U256::ONE))), None);
    assert_eq!(F::read(&bytes(U256::MAX)), None);
    assert_eq!(F::read(&[1; 31]), None);
    assert_eq!(F::read(&[0; 33]), None);
}
