//! CloudEvents attributes and how brokers spell them.

/// The spelling of attribute names in a broker's binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `ce_id`: Kafka, and Redis, which has no binding. Neither has a field for an id, so a raw
    /// message carries the id in a header [`RAW_ID`].
    Underscore,
    /// `ce-id`: HTTP and NATS.
    Dash,
    /// `cloudEvents_id`: AMQP.
    Amqp,
    /// `id`: MQTT 5.
    Plain,
}

/// The header that holds the id of a message whose profile has no attributes, if the broker has no
/// field for an id.
pub const RAW_ID: &str = "posthaste-id";

/// The names that a broker uses and reserves.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The spelling of attributes.
    pub style: Style,
    /// Header names, in lower case, that the adapter writes itself: a message may not use them.
    pub reserved: &'static [&'static str],
    /// Prefixes of header names, in lower case, that belong to the broker.
    pub reserved_prefixes: &'static [&'static str],
}

macro_rules! attributes {
    ($($variant:ident $name:literal,)*) => {
        /// The attributes that Posthaste sends and reads.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Attribute {
            $($variant,)*
        }

        impl Attribute {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The attribute's name as this style writes it.
            pub(crate) fn name(self, style: Style) -> &'static str {
                match (self, style) {
                    $(
                        (Self::$variant, Style::Underscore) => concat!("ce_", $name),
                        (Self::$variant, Style::Dash) => concat!("ce-", $name),
                        (Self::$variant, Style::Amqp) => concat!("cloudEvents_", $name),
                        (Self::$variant, Style::Plain) => $name,
                    )*
                }
            }
        }
    };
}

attributes! {
    SpecVersion "specversion",
    Id "id",
    Source "source",
    Type "type",
    Subject "subject",
    Time "time",
    DataContentType "datacontenttype",
    PartitionKey "partitionkey",
    Sequence "sequence",
    Redriven "redriven",
    Floor "posthastefloor",
    TraceParent "traceparent",
    TraceState "tracestate",
}

impl Attribute {
    /// Whether the attribute is part of the trace context, which is sent under its own name as
    /// well, so that tracing tools find it.
    pub(crate) fn is_trace(self) -> bool {
        matches!(self, Self::TraceParent | Self::TraceState)
    }

    /// The attribute of a header name, if it is one.
    pub(crate) fn of(header: &str, style: Style) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|attribute| attribute.name(style).eq_ignore_ascii_case(header))
    }
}

impl Names {
    /// The header of a raw message that holds its id, if there is one.
    pub(crate) fn raw_id(&self) -> Option<&'static str> {
        (self.style == Style::Underscore).then_some(RAW_ID)
    }

    /// Why a message may not use a header of this name, if it may not.
    pub(crate) fn refuses(&self, header: &str) -> bool {
        let lower = header.to_ascii_lowercase();
        let is_attribute = match self.style {
            Style::Underscore => lower.starts_with("ce_"),
            Style::Dash => lower.starts_with("ce-"),
            Style::Amqp => lower.starts_with("cloudevents_") || lower.starts_with("cloudevents:"),
            Style::Plain => {
                Attribute::of(&lower, Style::Plain).is_some_and(|attribute| !attribute.is_trace())
            }
        };
        is_attribute
            || self.reserved.contains(&lower.as_str())
            || self.reserved_prefixes.iter().any(|prefix| lower.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_ours_are_refused_and_a_trace_is_not() {
        let names =
            |style| Names { style, reserved: &["content-type"], reserved_prefixes: &["nats-"] };
        assert!(names(Style::Underscore).refuses("ce_anything"));
        assert!(names(Style::Dash).refuses("CE-Id"));
        assert!(names(Style::Amqp).refuses("cloudEvents:id"));
        assert!(names(Style::Plain).refuses("type"));
        assert!(names(Style::Dash).refuses("Content-Type"));
        assert!(names(Style::Dash).refuses("Nats-Msg-Id"));
        for style in [Style::Underscore, Style::Dash, Style::Amqp, Style::Plain] {
            assert!(!names(style).refuses("traceparent"));
            assert!(!names(style).refuses("tenant"));
        }
    }
}
