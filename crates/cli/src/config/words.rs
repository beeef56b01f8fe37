//! Settings with a fixed set of values.

use super::{setting::Setting, sources::Value};

/// Declares a setting with a fixed set of values.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $wanted:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// The word for it.
            pub(crate) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl Setting for $name {
            const WANTED: &'static str = $wanted;

            fn parse(value: &Value) -> Result<Self, Option<String>> {
                let Value::Text(text) = value else { return Err(None) };
                match text.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(Some("unknown value".to_owned())),
                }
            }

            fn show(&self) -> String {
                self.as_str().to_owned().show()
            }
        }
    };
}
words!(
    /// The format of log lines.
    LogFormat, "\"text\" or \"json\"", {
        /// For people.
        Text = "text",
        /// For machines, one object per line.
        Json = "json",
    }
);

words!(
    /// The lowest level of log lines that are written.
    LogLevel, "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"", {
        /// Failures that need a person.
        Error = "error",
        /// Also failures that may need a person.
        Warn = "warn",
        /// Also normal events.
        Info = "info",
        /// Also details of decisions.
        Debug = "debug",
        /// All lines.
        Trace = "trace",
    }
);

words!(
    /// Whether a dead letter blocks its key.
    OnDeadWord, "\"continue\" or \"block\"", {
        /// Later messages of the key go on.
        Continue = "continue",
        /// The key waits for a person.
        Block = "block",
    }
);
