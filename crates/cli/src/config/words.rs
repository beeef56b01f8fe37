//! Settings that are one of a few words.

use super::{setting::Setting, sources::Value};

/// A setting that is one of a few words.
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
                    _ => Err(Some("not one of the words".to_owned())),
                }
            }

            fn show(&self) -> String {
                self.as_str().to_owned().show()
            }
        }
    };
}
words!(
    /// How log lines look.
    LogFormat, "\"text\" or \"json\"", {
        /// For people.
        Text = "text",
        /// For machines, one object a line.
        Json = "json",
    }
);

words!(
    /// The least important log lines that are written.
    LogLevel, "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"", {
        /// Only what needs someone.
        Error = "error",
        /// And what may need someone.
        Warn = "warn",
        /// And what happened.
        Info = "info",
        /// And why.
        Debug = "debug",
        /// And everything else.
        Trace = "trace",
    }
);

words!(
    /// What a dead letter does to its key.
    OnDeadWord, "\"continue\" or \"block\"", {
        /// Later messages of the key go on.
        Continue = "continue",
        /// The key waits for a person.
        Block = "block",
    }
);
