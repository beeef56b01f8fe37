//! Typed events: a Rust type with its topic, event type and key.

use posthaste_core::{Invalid, Message};
use serde::Serialize;

/// A type that can be enqueued directly. The payload of the message is its JSON.
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
    /// The topic.
    const TOPIC: &'static str;
    /// The event type: a stable name, not derived from the name of the Rust type.
    const TYPE: &'static str;

    /// The key: messages of one key keep their order. `None` for no order.
    fn key(&self) -> Option<String>;
}

/// The argument of [`Outbox::enqueue`](crate::Outbox::enqueue): a [`Message`], or a reference to an
/// [`Event`].
pub trait IntoMessage {
    /// The message, validated.
    ///
    /// # Errors
    /// When the message breaks a limit or the event cannot be serialised.
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
