//! What every broker adapter shares, so that a message looks and behaves alike on all of them: its
//! wire form ([`Wire`]), the order of a call ([`Call`]), a connection that is replaced when it fails
//! ([`Connection`]), the certificates it trusts (`Roots`, by the feature `tls`), URLs without their
//! secrets ([`redacted`]), and errors that nobody has mapped ([`unmapped`]).
//!
//! Nothing here knows a broker: adapters say how their broker spells attributes ([`Style`]) and which
//! header names it keeps for itself ([`Names`]). Only [`redacted`] knows schemes, so that one table says
//! what may be shown.

mod attribute;
mod call;
mod connection;
mod decode;
mod destination;
mod encode;
mod redact;
mod structured;
#[cfg(feature = "tls")]
mod tls;
mod unmapped;

pub use attribute::{Names, RAW_ID, Style};
pub use call::{Call, Ordering, Outcomes, Part, PerKey, Sender};
pub use connection::{Connection, Link};
pub use decode::Received;
pub use destination::Destination;
pub use encode::{Outgoing, STRUCTURED_CONTENT_TYPE};
pub use redact::{is_secret_parameter, redacted};
#[cfg(feature = "tls")]
pub use tls::{Roots, Tls, refuse_ca_file};
pub use unmapped::{describe_metrics, unmapped};

/// How messages are written to, and read from, a broker.
#[derive(Clone, Debug)]
pub struct Wire {
    /// The form of a message.
    pub profile: Profile,
    /// Which outbox this is: the CloudEvents `source`, a URI reference.
    pub source: String,
    /// Where a message goes.
    pub destination: Destination,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            profile: Profile::Binary,
            source: "/posthaste".to_owned(),
            destination: Destination::default(),
        }
    }
}

/// The form of a message on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// CloudEvents 1.0, binary mode: the payload is the body, everything else travels as headers.
    #[default]
    Binary,
    /// CloudEvents 1.0, structured mode: one JSON object that holds everything.
    Structured,
    /// The payload and the message's own headers, and the id where the broker has a place for it; a
    /// header [`RAW_ID`] where it has none.
    Raw,
    /// As the outbox event router of Debezium writes it: the payload, with the id in a header `id`.
    Debezium,
}

impl Profile {
    /// Every profile, with its name in configuration.
    pub const ALL: [(&'static str, Self); 4] = [
        ("cloudevents-binary", Self::Binary),
        ("cloudevents-structured", Self::Structured),
        ("raw", Self::Raw),
        ("debezium", Self::Debezium),
    ];
}
