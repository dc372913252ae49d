//! Why messages are rejected, in the words of go-libp2p-pubsub (`tracer.go`, "rejection reasons").

/// The signature that the policy asks for is missing.
pub const MISSING_SIGNATURE: &str = "missing signature";
/// A signature where the policy allows none.
pub const UNEXPECTED_SIGNATURE: &str = "unexpected signature";
/// An author or a number where the policy allows none.
pub const UNEXPECTED_AUTH_INFO: &str = "unexpected auth info";
/// The signature is wrong.
pub const INVALID_SIGNATURE: &str = "invalid signature";
/// Too many messages wait for their validation.
pub const VALIDATION_THROTTLED: &str = "validation throttled";
/// The application says that the message is invalid.
pub const VALIDATION_FAILED: &str = "validation failed";
/// The application says that the message is of no interest.
pub const VALIDATION_IGNORED: &str = "validation ignored";
/// A message in this node's name, from somebody else.
pub const SELF_ORIGIN: &str = "self originated message";
