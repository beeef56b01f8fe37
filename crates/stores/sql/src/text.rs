//! The texts of statements: one file each, with parameters as `:name`, rendered once for a dialect and
//! for the name under which the tables stand.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
};

use posthaste_core::Invalid;

use crate::{Fault, Param, Value};

/// A file of `sql/`: its name without the extension, and its text.
pub type File = (&'static str, &'static str);

/// The files of `sql/` with these names, in the crate that says so.
#[macro_export]
macro_rules! sql_files {
    ($($name:ident),* $(,)?) => {
        &[$((
            stringify!($name),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", stringify!($name), ".sql")),
        )),*]
    };
}

/// How a database writes parameters, and where it keeps our tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notation {
    /// `$1`, and tables in a schema: `posthaste.outbox`.
    DollarInSchema,
    /// `?`, once for each place, and tables with a prefix: `posthaste_outbox`.
    QuestionWithPrefix,
    /// `?1`, and tables with a prefix.
    NumberedQuestionWithPrefix,
}

/// The name under which the tables of one outbox stand: a schema on PostgreSQL, a prefix elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace(String);

impl Namespace {
    /// The name that files have it under.
    const DEFAULT: &'static str = "posthaste";
    /// PostgreSQL shortens names of more than 63 bytes; the longest behind ours has 40.
    const BYTES_MAX: usize = 20;

    /// Another name than `posthaste`.
    ///
    /// # Errors
    /// For a name that is not of 1 to 20 lower-case letters, digits and underscores, the first of them a
    /// letter.
    pub fn new(name: &str) -> Result<Self, Invalid> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase();
        let is_valid = name.len() <= Self::BYTES_MAX
            && name.bytes().next().is_some_and(is_letter)
            && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit() || byte == b'_');
        if is_valid {
            return Ok(Self(name.to_owned()));
        }
        let rule = "must be 1 to 20 lower-case letters, digits and underscores, a letter first";
        Err(Invalid::new("namespace", name, rule))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

/// A statement as the database takes it.
#[derive(Debug)]
pub struct Text {
    /// The file's name.
    pub name: &'static str,
    /// The statement.
    pub sql: String,
    /// The names of its parameters, in the order in which they are bound.
    pub params: Vec<String>,
}

impl Text {
    /// The values of the parameters, in the order in which the statement binds them.
    ///
    /// # Errors
    /// Kind `Internal` for a parameter that is not given.
    pub fn bound<'p, 'v>(&self, params: &'p [Param<'v>]) -> Result<Vec<&'p Value<'v>>, Fault> {
        let value = |name: &String| {
            let given = params.iter().find(|(given, _)| given == name);
            given.map(|(_, value)| value).ok_or_else(|| {
                let told = format!("statement `{}` wants :{name}, which is not given", self.name);
                Fault::internal(told)
            })
        };
        self.params.iter().map(value).collect()
    }
}

/// All statements of a dialect, for one namespace.
#[derive(Debug)]
pub struct Texts {
    namespace: Namespace,
    notation: Notation,
    texts: HashMap<&'static str, Text>,
}

/// Rendered once for each dialect and namespace of the process, and kept: there are few of them.
static RENDERED: LazyLock<Mutex<HashMap<(Notation, Namespace), &'static Texts>>> =
    LazyLock::new(Mutex::default);

impl Texts {
    /// The texts of the files for a namespace.
    #[must_use]
    pub fn of(notation: Notation, namespace: &Namespace, files: &[&[File]]) -> &'static Self {
        let mut rendered = RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (notation, namespace.clone());
        rendered.entry(key).or_insert_with(|| {
            let files = files.iter().copied().flatten();
            let text = |&(name, text): &File| (name, render(notation, namespace, name, text));
            let texts = files.map(text).collect();
            Box::leak(Box::new(Self { namespace: namespace.clone(), notation, texts }))
        })
    }

    /// The statement in the file of that name, where the dialect has it.
    #[must_use]
    pub fn get(&'static self, file: &str) -> Option<&'static Text> {
        self.texts.get(file)
    }

    /// A script, such as a migration, for the namespace.
    #[must_use]
    pub fn script(&self, text: &str) -> String {
        renamed(self.notation, &self.namespace, text)
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

fn render(notation: Notation, namespace: &Namespace, name: &'static str, text: &str) -> Text {
    let text = renamed(notation, namespace, text);
    let mut sql = String::with_capacity(text.len());
    let mut params: Vec<String> = Vec::new();
    for piece in pieces(&text) {
        match piece {
            Piece::Comment => {}
            Piece::Verbatim(part) => sql.push_str(part),
            Piece::Param(param) => sql.push_str(&mark(notation, &mut params, param)),
        }
    }
    // The name goes along, so that a server's list of sessions tells what each of them does.
    Text { name, sql: format!("-- {name}:\n{}", sql.trim()), params }
}

/// How a parameter is written at one place; notes what is bound there.
fn mark(notation: Notation, params: &mut Vec<String>, param: &str) -> String {
    if notation == Notation::QuestionWithPrefix {
        params.push(param.to_owned());
        return "?".to_owned();
    }
    let known = params.iter().position(|known| known == param);
    let index = known.unwrap_or_else(|| {
        params.push(param.to_owned());
        params.len() - 1
    });
    match notation {
        Notation::DollarInSchema => format!("${}", index + 1),
        _ => format!("?{}", index + 1),
    }
}

/// The text with the namespace's name in the place of the default one.
fn renamed(notation: Notation, namespace: &Namespace, text: &str) -> String {
    if *namespace == Namespace::default() {
        return text.to_owned();
    }
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut renamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(Namespace::DEFAULT) {
        let (before, found) = rest.split_at(at);
        let after = &found[Namespace::DEFAULT.len()..];
        let begins = !before.chars().next_back().is_some_and(is_word);
        let next = after.chars().next();
        let ends = match notation {
            Notation::DollarInSchema => !next.is_some_and(is_word),
            _ => next == Some('_'),
        };
        renamed.push_str(before);
        let is_ours = begins && ends;
        renamed.push_str(if is_ours { namespace.as_str() } else { Namespace::DEFAULT });
        rest = after;
    }
    renamed + rest
}

/// A part of a statement.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    /// From `--` to the end of the line.
    Comment,
    Verbatim(&'t str),
    /// The name behind a single colon.
    Param(&'t str),
}

/// Takes a statement apart. Parameters are not looked for in comments, strings and quoted names; `::` is
/// a cast.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = next_piece(rest);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn next_piece(text: &str) -> (Piece<'_>, &str) {
    let end_of = |quote: char| text[1..].find(quote).map_or(text.len(), |at| at + 2);
    if text.starts_with("--") {
        let end = text.find('\n').unwrap_or(text.len());
        return (Piece::Comment, &text[end..]);
    }
    let first = text.chars().next().unwrap_or_default();
    let end = match first {
        '\'' | '"' | '`' => end_of(first),
        ':' if text.starts_with("::") => 2,
        ':' => {
            let is_name = |character: char| !(character.is_ascii_lowercase() || character == '_');
            let end = text[1..].find(is_name).map_or(text.len(), |at| at + 1);
            if end > 1 {
                return (Piece::Param(&text[1..end]), &text[end..]);
            }
            1
        }
        _ => {
            let special = text.find(['\'', '"', '`', ':']);
            let comment = text.find("--");
            let ends = [special, comment].into_iter().flatten().min();
            ends.unwrap_or(text.len()).max(first.len_utf8())
        }
    };
    (Piece::Verbatim(&text[..end]), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "-- about :nothing\nSELECT ':no', \"a:b\", x::int8 -- :no\n\
                        FROM posthaste.lease WHERE route = :route AND s = :shard OR :route IS NULL\n";

    fn rendered(notation: Notation) -> Text {
        render(notation, &Namespace::default(), "test", TEXT)
    }

    #[test]
    fn parameters_are_numbered_or_repeated_as_the_database_wants_them() {
        let dollar = rendered(Notation::DollarInSchema);
        assert_eq!(
            dollar.sql,
            "-- test:\nSELECT ':no', \"a:b\", x::int8 \nFROM posthaste.lease WHERE route = $1 AND s = $2 OR \
             $1 IS NULL"
        );
        assert_eq!(dollar.params, ["route", "shard"]);
        let question = rendered(Notation::QuestionWithPrefix);
        assert!(question.sql.ends_with("route = ? AND s = ? OR ? IS NULL"), "{}", question.sql);
        assert_eq!(question.params, ["route", "shard", "route"]);
        let numbered = rendered(Notation::NumberedQuestionWithPrefix);
        assert!(numbered.sql.ends_with("route = ?1 AND s = ?2 OR ?1 IS NULL"));
    }

    #[test]
    fn namespace_takes_the_place_of_the_default_name_and_of_nothing_else() {
        let shop = Namespace::new("shop").unwrap();
        for (notation, text, expected) in [
            (
                Notation::DollarInSchema,
                "posthaste.outbox, posthaste_x, my.posthastes, CREATE SCHEMA posthaste;",
                "shop.outbox, posthaste_x, my.posthastes, CREATE SCHEMA shop;",
            ),
            (
                Notation::QuestionWithPrefix,
                "posthaste_outbox JOIN `posthaste_log` ON not_posthaste_x, posthaste",
                "shop_outbox JOIN `shop_log` ON not_posthaste_x, posthaste",
            ),
        ] {
            assert_eq!(renamed(notation, &shop, text), expected);
        }
    }

    #[test]
    fn namespace_that_is_no_plain_name_is_refused() {
        for name in ["", "1a", "Shop", "a-b", "a.b", "a\"b", "a_very_long_name_of_a_schema"] {
            let invalid = Namespace::new(name).unwrap_err();
            assert!(invalid.to_string().contains("lower-case"), "{invalid}");
        }
    }
}
