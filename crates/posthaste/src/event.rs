//! Typed events: the topic, type and key of a Rust type, said once.

use posthaste_core::{Invalid, Message};
use serde::Serialize;

/// A type that can be enqueued as it is. Its payload is its JSON.
///
/// ```
/// #[derive(serde::Serialize)]
/// struct OrderPlaced {
///     order_id: u64,
///     total_cents: i64,
/// }
///
/// impl posthaste::Event for OrderPlaced {
///     const TOPIC: &'static str = "orders";
///     const TYPE: &'static str = "OrderPlaced";
///
///     fn key(&self) -> Option<String> {
///         Some(self.order_id.to_string())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an outbox event",
    note = "implement `posthaste::Event` for it (topic, type, key) and derive `serde::Serialize`, or pass a `posthaste::Message`"
)]
pub trait Event: Serialize {
    /// Where it goes.
    const TOPIC: &'static str;
    /// What happened: a stable name, never derived from the Rust type.
    const TYPE: &'static str;

    /// What it is ordered by; `None` for no order.
    fn key(&self) -> Option<String>;
}

/// What [`Outbox::enqueue`](crate::Outbox::enqueue) takes: a [`Message`], or a reference to an
/// [`Event`].
pub trait IntoMessage {
    /// The message, validated.
    ///
    /// # Errors
    /// When it breaks a limit or does not serialise.
    fn into_message(self) -> Result<Message, Invalid>;
}

impl IntoMessage for Message {
    fn into_message(self) -> Result<Message, Invalid> {
        self.validate()?;
        Ok(self)
    }
}

impl<E: Event> IntoMessage for &E {
    fn into_message(self) -> Result<Message, Invalid> {
        let message = match self.key() {
            Some(key) => Message::new(E::TOPIC, key, self)?,
            None => Message::unkeyed(E::TOPIC, self)?,
        };
        message.event_type(E::TYPE).into_message()
    }
}
