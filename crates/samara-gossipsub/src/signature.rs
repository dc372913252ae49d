//! Which messages must carry an author and a signature, and what is signed (specification, "Message signing").
//!
//! The cryptography itself comes from the driver, through [`Signer`] and [`Verifier`]: an engine in a simulator
//! needs none.

use samara_engine::protobuf::Writer;
use thiserror::Error;

use crate::rpc::Message;
use crate::wire;

/// What a node signs and what it asks for (go-libp2p-pubsub `MessageSignaturePolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignaturePolicy {
    /// Signs, and accepts only signed messages: the default of libp2p.
    #[default]
    StrictSign,
    /// Does not sign, and accepts only messages without author, number, signature and key: Ethereum's.
    StrictNoSign,
    /// Signs; accepts unsigned messages, but no wrong signatures (deprecated by the specification).
    LaxSign,
    /// Does not sign; accepts unsigned messages, but no wrong signatures (deprecated by the specification).
    LaxNoSign,
}

/// What is wrong with a message under a policy.
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
    /// A signature where there must be none.
    #[error("there is a signature, but the policy is not to sign")]
    UnexpectedSignature,
    /// Author, sequence number or key where there must be none.
    #[error("there is an author, a sequence number or a key, but the policy is not to sign")]
    UnexpectedAuthor,
    /// The signature is not that of the author.
    #[error("the signature is wrong")]
    InvalidSignature,
}

/// Signs for one identity.
pub trait Signer: Send + Sync {
    /// The signature of these bytes.
    fn sign(&self, bytes: &[u8]) -> Vec<u8>;
    /// The public key to attach, if the identity does not contain it.
    fn attached_key(&self) -> Option<Vec<u8>>;
}

/// Checks signatures.
pub trait Verifier: Send + Sync {
    /// Whether `signature` over `bytes` is that of `author`, whose public key is `key` or else within the identity.
    fn verify(&self, author: &[u8], key: Option<&[u8]>, bytes: &[u8], signature: &[u8]) -> bool;
}

impl SignaturePolicy {
    /// Whether own messages are signed.
    pub fn signs(self) -> bool {
        matches!(self, Self::StrictSign | Self::LaxSign)
    }

    /// Checks which fields there are, before the message is looked up or verified: cheap.
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

/// Attaches signature and key to a message.
pub fn sign(message: &mut Message, signer: &dyn Signer) {
    message.signature = Some(signer.sign(&signed_bytes(message)).into());
    message.key = signer.attached_key().map(Into::into);
}

/// What is signed: `libp2p-pubsub:`, then the encoded message without signature and key.
pub fn signed_bytes(message: &Message) -> Vec<u8> {
    const PREFIX: &[u8] = b"libp2p-pubsub:";
    let put = |out: &mut Writer<'_, Vec<u8>>| wire::put_message(out, message, false);
    let mut bytes = Vec::with_capacity(PREFIX.len() + Writer::count(put));
    bytes.extend_from_slice(PREFIX);
    put(&mut Writer::new(&mut bytes));
    bytes
}
