//! Wire types and their total conversion to and from core types.
//!
//! Every core type that travels has a message of its own in [`wire`], a `From<&Core>` and a `TryFrom<Message>`. A field that is
//! missing, out of range or of an unknown kind is a [`BadMessage`] that names it; nothing gets a silent default.
#![forbid(unsafe_code)]

pub mod client;
pub mod convert;
pub mod door;
pub mod envelope;
pub mod frame;
pub mod invitation;
pub mod reply;
pub mod ticket;

pub use convert::BadMessage;

/// Messages and services as generated from `spur/v1/*.proto`.
#[expect(
    missing_docs,
    unused_qualifications,
    reason = "generated; the documentation is in the .proto files and in spur-core"
)]
#[expect(
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    reason = "generated"
)]
pub mod wire {
    tonic::include_proto!("spur.v1");
}
