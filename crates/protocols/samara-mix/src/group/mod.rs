//! The groups of the payloads.

pub(crate) mod field;
#[cfg(test)]
mod tests;

pub(crate) use primes::*;

/// The group whose elements represent payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "config",
    derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Group {
    /// The 2048-bit MODP group of RFC 3526: two elements make a slot of 512 bytes, as in the alpha
    /// of the xx network.
    #[cfg_attr(feature = "config", serde(rename = "modp-2048"))]
    Modp2048,
    /// The 4096-bit MODP group of RFC 3526: slots of 1,024 bytes, as in the xx network today.
    #[cfg_attr(feature = "config", serde(rename = "modp-4096"))]
    Modp4096,
    /// Elements of 2048 bits without arithmetic: payloads are only moved and permuted. For
    /// simulations, which charge the times of real work. Nothing is secret.
    Model,
    /// Elements of 256 bits, slots of 64 bytes. For tests; nothing is secret.
    #[cfg(feature = "small-group")]
    #[cfg_attr(feature = "config", serde(skip))]
    Small256,
}

impl Group {
    /// Returns the name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Modp2048 => "modp-2048",
            Self::Modp4096 => "modp-4096",
            Self::Model => "model",
            #[cfg(feature = "small-group")]
            Self::Small256 => "small-256",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::Modp2048,
            Self::Modp4096,
            Self::Model,
            #[cfg(feature = "small-group")]
            Self::Small256,
        ];
        all.into_iter().find(|group| group.name() == name)
    }

    pub const fn element_bytes(self) -> usize {
        match self {
            Self::Modp2048 | Self::Model => 256,
            Self::Modp4096 => 512,
            #[cfg(feature = "small-group")]
            Self::Small256 => 32,
        }
    }

    /// Bytes of a slot, which is two elements.
    pub const fn slot_bytes(self) -> usize {
        2 * self.element_bytes()
    }

    /// Returns the bytes of content that a slot carries. Two bytes of each element mark it; see
    /// `sender.rs`.
    pub const fn content_bytes(self) -> usize {
        2 * (self.element_bytes() - crate::sender::MARK_BYTES)
    }
}

/// Evaluates an expression with the operations of a group, or another one for [`Group::Model`].
macro_rules! with_field {
    ($group:expr, $field:ident => $body:expr, model => $model:expr) => {
        match $group {
            $crate::Group::Modp2048 => {
                type $field =
                    $crate::group::field::Field<$crate::group::Modp2048, { crypto_bigint::U2048::LIMBS }>;
                $body
            }
            $crate::Group::Modp4096 => {
                type $field =
                    $crate::group::field::Field<$crate::group::Modp4096, { crypto_bigint::U4096::LIMBS }>;
                $body
            }
            #[cfg(feature = "small-group")]
            $crate::Group::Small256 => {
                type $field =
                    $crate::group::field::Field<$crate::group::Small256, { crypto_bigint::U256::LIMBS }>;
                $body
            }
            $crate::Group::Model => $model,
        }
    };
}
pub(crate) use with_field;

/// The moduli: safe primes `p = 2q + 1` with `p = 7 mod 8`, so that 2 generates the subgroup of
/// prime order `q`.
///
/// A test recomputes those of RFC 3526 from the RFC's formula.
#[allow(unreachable_pub, reason = "the macro generates public types")]
mod primes {
    use crypto_bigint::{U2048, U4096, const_monty_params};

    const_monty_params!(
        Modp2048,
        U2048,
        "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74\
         020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F1437\
         4FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED\
         EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF05\
         98DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB\
         9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B\
         E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718\
         3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
        "RFC 3526, section 3: the 2048-bit MODP group (id 14), `2^2048 - 2^1984 - 1 + 2^64 * ([2^1918 pi] + 124476)`."
    );

    const_monty_params!(
        Modp4096,
        U4096,
        "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74\
         020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F1437\
         4FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED\
         EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF05\
         98DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB\
         9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B\
         E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718\
         3995497CEA956AE515D2261898FA051015728E5A8AAAC42DAD33170D04507A33\
         A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7\
         ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864\
         D87602733EC86A64521F2B18177B200CBBE117577A615D6C770988C0BAD946E2\
         08E24FA074E5AB3143DB5BFCE0FD108E4B82D120A92108011A723C12A787E6D7\
         88719A10BDBA5B2699C327186AF4E23C1A946834B6150BDA2583E9CA2AD44CE8\
         DBBBC2DB04DE8EF92E8EFC141FBECAA6287C59474E6BC05D99B2964FA090C3A2\
         233BA186515BE7ED1F612970CEE2D7AFB81BDD762170481CD0069127D5B05AA9\
         93B4EA988D8FDDC186FFB7DC90A6C08F4DF435C934063199FFFFFFFFFFFFFFFF",
        "RFC 3526, section 5: the 4096-bit MODP group (id 16), `2^4096 - 2^4032 - 1 + 2^64 * ([2^3966 pi] + 240904)`."
    );

    #[cfg(feature = "small-group")]
    const_monty_params!(
        Small256,
        crypto_bigint::U256,
        "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF72EF",
        "The largest safe prime below 2^256 that is 7 mod 8: 2^256 - 36113. For tests."
    );
}
