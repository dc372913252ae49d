//! The groups in which payloads are hidden.

pub(crate) mod field;
mod primes;
pub(crate) mod table;
#[cfg(test)]
mod tests;

#[cfg(feature = "small-group")]
pub(crate) use primes::Small256;
pub(crate) use primes::{Modp2048, Modp4096};

/// The group that payloads are elements of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "config",
    derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Group {
    /// The 2048-bit MODP group of RFC 3526: two elements make a slot of 512 bytes, as in the alpha of the xx network.
    #[cfg_attr(feature = "config", serde(rename = "modp-2048"))]
    Modp2048,
    /// The 4096-bit MODP group of RFC 3526: slots of 1,024 bytes, as in the xx network today.
    #[cfg_attr(feature = "config", serde(rename = "modp-4096"))]
    Modp4096,
    /// Elements of 2048 bits, and no arithmetic: payloads are only moved and permuted. For simulations, which charge what
    /// [`Job::work`](crate::Job::work) says. Nothing is secret.
    Model,
    /// 256 bits: slots of 64 bytes. For tests; nothing is secret.
    #[cfg(feature = "small-group")]
    #[cfg_attr(feature = "config", serde(skip))]
    Small256,
}

impl Group {
    /// What options and reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Modp2048 => "modp-2048",
            Self::Modp4096 => "modp-4096",
            Self::Model => "model",
            #[cfg(feature = "small-group")]
            Self::Small256 => "small-256",
        }
    }

    /// The group with this name.
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

    /// Bytes of an element.
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

    /// Bytes of content that a slot carries: each element has two bytes that mark it : see `content.rs`.
    pub const fn content_bytes(self) -> usize {
        2 * (self.element_bytes() - crate::content::MARK_BYTES)
    }
}

/// Runs an expression with the operations of a group, or another one for [`Group::Model`].
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
