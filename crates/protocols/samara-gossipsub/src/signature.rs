//! Authors and signatures of messages: which fields are required, and which bytes are signed
//! (specification, "Message signing").
//!
//! The driver provides the cryptography through [`Signer`] and [`Verifier`]. An engine in a
//! simulator needs neither.

use samara_engine::protobuf::Writer;
use thiserror::Error;

use crate::rpc::Message;
use crate::wire;

/// Whether a node signs its messages, and which messages it accepts (go-libp2p-pubsub
/// `MessageSignaturePolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignaturePolicy {
    /// Signs, and accepts only signed messages: the default of libp2p.
    #[default]
    StrictSign,
    /// Does not sign, and accepts only messages without author, sequence number, signature and key.
    /// Used by Ethereum.
    StrictNoSign,
    /// Signs, and accepts unsigned messages but no invalid signatures (deprecated by the
    /// specification).
    LaxSign,
    /// Does not sign, and accepts unsigned messages but no invalid signatures (deprecated by the
    /// specification).
    LaxNoSign,
}

/// The reason why a message violates a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SignatureError {
    /// A signature is required.
    #[error("the signature is missing")]
    MissingSignature,
    /// An author or a sequence number is required with the signature.
    #[error("the author or the sequence number is missing")]
    MissingAuthor,
    /// The sequence number is not 8 bytes long.
    #[error("the sequence number is not 8 bytes long")]
    SequenceNumber,
    /// The message has a signature, but the policy forbids it.
    #[error("the message has a signature, but the policy forbids signatures")]
    UnexpectedSignature,
    /// The message has an author, a sequence number or a key, but the policy forbids them.
    #[error("the message has an author, a sequence number or a key, but the policy forbids them")]
    UnexpectedAuthor,
    /// The signature does not match the author.
    #[error("the signature does not match the author")]
    InvalidSignature,
}

/// Signs bytes with the key of one identity.
pub trait Signer: Send + Sync {
    /// Returns the signature of these bytes.
    fn sign(&self, bytes: &[u8]) -> Vec<u8>;
    /// Returns the public key to attach, if the identity does not contain it.
    fn attached_key(&self) -> Option<Vec<u8>>;
}

/// Checks signatures of any author.
pub trait Verifier: Send + Sync {
    /// Returns true if `signature` over `bytes` is valid for `author`. Its public key is `key`, or
    /// else part of the identity.
    fn verify(&self, author: &[u8], key: Option<&[u8]>, bytes: &[u8], signature: &[u8]) -> bool;
}

impl SignaturePolicy {
    /// Returns true if the policy signs own messages.
    pub fn signs(self) -> bool {
        matches!(self, Self::StrictSign | Self::LaxSign)
    }

    /// Checks the presence of fields. It is cheap enough to precede the lookup and verification of
    /// a message.
    pub fn check_fields(self, message: &Message) -> Result<(), SignatureError> {
        let signed = message.signature.is_some();
        if self == Self::StrictNoSign {
            let author = message.from.is_some() || message.seqno.is_some() || message.key.is_some();
            return match (signed, author) {
                (true, _) => Err(SignatureError::UnexpectedSignature),
                (false, true) => Err(SignatureError::UnexpectedAuthor),
                (false, false) => Ok(()),
            };
        }
        if !signed {
            let required = self == Self::StrictSign;
            return if required { Err(SignatureError::MissingSignature) } else { Ok(()) };
        }
        match (&message.from, &message.seqno) {
            (Some(_), Some(seqno)) if seqno.len() == 8 => Ok(()),
            (Some(_), Some(_)) => Err(SignatureError::SequenceNumber),
            _ => Err(SignatureError::MissingAuthor),
        }
    }

    /// Checks the fields, and the signature if there is one.
    pub fn verify(self, message: &Message, verifier: &dyn Verifier) -> Result<(), SignatureError> {
        self.check_fields(message)?;
        let (Some(author), Some(signature)) = (&message.from, &message.signature) else { return Ok(()) };
        let bytes = signed_bytes(message);
        if verifier.verify(author, message.key.as_deref(), &bytes, signature) {
            Ok(())
        } else {
            Err(SignatureError::InvalidSignature)
        }
    }
}

/// Attaches a signature and a key to a message.
pub fn sign(message: &mut Message, signer: &dyn Signer) {
    message.signature = Some(signer.sign(&signed_bytes(message)).into());
    message.key = signer.attached_key().map(Into::into);
}

/// Returns the bytes to sign: `libp2p-pubsub:`, then the encoded message without signature and key.
pub fn signed_bytes(message: &Message) -> Vec<u8> {
    const PREFIX: &[u8] = b"libp2p-pubsub:";
    let put = |out: &mut Writer<'_, Vec<u8>>| wire::put_message(out, message, false);
    let mut bytes = Vec::with_capacity(PREFIX.len() + Writer::count(put));
    bytes.extend_from_slice(PREFIX);
    put(&mut Writer::new(&mut bytes));
    bytes
}
