//! Values between the engine and a database: parameters of statements, and the rows they return.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use posthaste_core::{MessageId, Position, RelayId, Seq};
use serde_json::Value as Json;
use uuid::Uuid;

use crate::Fault;

/// A parameter of a statement. Each has its type even where it is NULL. How a database takes it is the
/// dialect's business: a list is an array where there are arrays, and a JSON array elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'v> {
    /// A number. Durations are microseconds.
    Int(Option<i64>),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(Option<Cow<'v, str>>),
    /// Bytes.
    Bytes(&'v [u8]),
    /// A UUID.
    Uuid(Option<Uuid>),
    /// A list of numbers.
    Ints(Cow<'v, [i64]>),
    /// A list of texts.
    Texts(Cow<'v, [String]>),
    /// A list of UUIDs; `None` for any UUID.
    Uuids(Option<Vec<Uuid>>),
    /// A list of pairs. Every database takes it as the JSON array of [`Value::pairs_to_json`].
    Pairs(Cow<'v, [(i64, i64)]>),
}

impl Value<'_> {
    /// The pairs as `[[1,2],[3,4]]`.
    #[must_use]
    pub fn pairs_to_json(pairs: &[(i64, i64)]) -> String {
        json_array(pairs.iter().map(|(first, second)| Json::from(vec![*first, *second])))
    }
}

/// A JSON array of the items.
pub fn json_array<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> String {
    Json::from_iter(items).to_string()
}

/// A parameter's name, as `:name` has it in the text of a statement, and its value.
pub type Param<'v> = (&'static str, Value<'v>);

/// The parameters of a statement: `params![route: &lease.route, shard: lease.shard.index]`.
#[macro_export]
macro_rules! params {
    ($($name:ident: $value:expr),* $(,)?) => {
        [$((stringify!($name), $crate::Value::from($value))),*]
    };
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(number: Option<i64>) -> Self {
        Self::Int(number)
    }
}

impl From<u16> for Value<'_> {
    fn from(number: u16) -> Self {
        Self::Int(Some(number.into()))
    }
}

impl From<Option<u16>> for Value<'_> {
    fn from(number: Option<u16>) -> Self {
        Self::Int(number.map(i64::from))
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Int(Some(number.into()))
    }
}

/// More than fits is the same as the most that does: no database holds as much.
impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

/// Microseconds. Longer than a century is the same to us, and the dates of databases have an end.
impl From<Duration> for Value<'_> {
    fn from(duration: Duration) -> Self {
        const CENTURY: Duration = Duration::from_secs(3_200_000_000);
        Self::Int(i64::try_from(duration.min(CENTURY).as_micros()).ok())
    }
}

impl From<Option<Duration>> for Value<'_> {
    fn from(duration: Option<Duration>) -> Self {
        duration.map_or(Self::Int(None), Self::from)
    }
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(Some(text.into()))
    }
}

impl<'v> From<&'v String> for Value<'v> {
    fn from(text: &'v String) -> Self {
        Self::Text(Some(text.into()))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Some(text.into()))
    }
}

impl<'v> From<Option<&'v str>> for Value<'v> {
    fn from(text: Option<&'v str>) -> Self {
        Self::Text(text.map(Cow::from))
    }
}

impl From<Option<String>> for Value<'_> {
    fn from(text: Option<String>) -> Self {
        Self::Text(text.map(Cow::from))
    }
}

impl<'v> From<&'v Option<String>> for Value<'v> {
    fn from(text: &'v Option<String>) -> Self {
        Self::Text(text.as_deref().map(Cow::from))
    }
}

impl From<&Position> for Value<'_> {
    fn from(position: &Position) -> Self {
        position.to_string().into()
    }
}

impl<'v> From<&'v [u8]> for Value<'v> {
    fn from(bytes: &'v [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Uuid> for Value<'_> {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(Some(uuid))
    }
}

impl From<Option<Uuid>> for Value<'_> {
    fn from(uuid: Option<Uuid>) -> Self {
        Self::Uuid(uuid)
    }
}

impl From<RelayId> for Value<'_> {
    fn from(relay: RelayId) -> Self {
        Self::Uuid(Some(relay.0))
    }
}

impl From<MessageId> for Value<'_> {
    fn from(id: MessageId) -> Self {
        Self::Uuid(Some(id.0))
    }
}

impl<'v> From<&'v [Seq]> for Value<'v> {
    fn from(numbers: &'v [Seq]) -> Self {
        Self::Ints(numbers.into())
    }
}

impl From<Vec<i64>> for Value<'_> {
    fn from(numbers: Vec<i64>) -> Self {
        Self::Ints(numbers.into())
    }
}

impl<'v> From<&'v [String]> for Value<'v> {
    fn from(texts: &'v [String]) -> Self {
        Self::Texts(texts.into())
    }
}

impl From<Vec<Uuid>> for Value<'_> {
    fn from(uuids: Vec<Uuid>) -> Self {
        Self::Uuids(Some(uuids))
    }
}

impl From<Option<Vec<Uuid>>> for Value<'_> {
    fn from(uuids: Option<Vec<Uuid>>) -> Self {
        Self::Uuids(uuids)
    }
}

impl<'v> From<&'v [(i64, i64)]> for Value<'v> {
    fn from(pairs: &'v [(i64, i64)]) -> Self {
        Self::Pairs(pairs.into())
    }
}

/// One column of a row, as the driver gave it.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// NULL.
    Null,
    /// A number or a truth value.
    Int(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A UUID.
    Uuid(Uuid),
}

/// A row that a statement returned. Columns are read by their place.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(pub Vec<Cell>);

/// What a statement did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The rows it returned.
    pub rows: Vec<Row>,
    /// How many rows it changed, as the server counts them.
    pub affected: u64,
}

impl Row {
    fn cell(&self, index: usize) -> Result<&Cell, Fault> {
        self.0.get(index).ok_or_else(|| self.unreadable(index, "a column"))
    }

    fn unreadable(&self, index: usize, what: &str) -> Fault {
        Fault::internal(format!("a statement returned no {what} in column {index}"))
    }

    /// A number; `None` for NULL.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn int(&self, index: usize) -> Result<Option<i64>, Fault> {
        match self.cell(index)? {
            Cell::Null => Ok(None),
            Cell::Int(number) => Ok(Some(*number)),
            _ => Err(self.unreadable(index, "number")),
        }
    }

    /// A number that is never NULL.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn number<N: TryFrom<i64>>(&self, index: usize) -> Result<N, Fault> {
        let number = self.int(index)?.and_then(|number| N::try_from(number).ok());
        number.ok_or_else(|| self.unreadable(index, "number that fits"))
    }

    /// A truth value; NULL is `false`.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn bool(&self, index: usize) -> Result<bool, Fault> {
        Ok(self.int(index)?.is_some_and(|number| number != 0))
    }

    /// A text; `None` for NULL. Columns hold UTF-8, but one row that somebody forced past that must not
    /// stop a route, so bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn text(&self, index: usize) -> Result<Option<String>, Fault> {
        match self.cell(index)? {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text.clone())),
            Cell::Bytes(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
            Cell::Uuid(uuid) => Ok(Some(uuid.to_string())),
            Cell::Int(_) => Err(self.unreadable(index, "text")),
        }
    }

    /// A text that is empty for NULL.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn string(&self, index: usize) -> Result<String, Fault> {
        Ok(self.text(index)?.unwrap_or_default())
    }

    /// As [`string`](Self::string), leaving nothing in the row.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn take_text(&mut self, index: usize) -> Result<Option<String>, Fault> {
        match self.0.get_mut(index) {
            Some(Cell::Text(text)) => Ok(Some(std::mem::take(text))),
            Some(Cell::Bytes(bytes)) => {
                let text = String::from_utf8(std::mem::take(bytes));
                Ok(Some(text.unwrap_or_else(|invalid| {
                    String::from_utf8_lossy(invalid.as_bytes()).into_owned()
                })))
            }
            _ => self.text(index),
        }
    }

    /// Bytes, leaving nothing in the row; `None` for NULL.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn take_bytes(&mut self, index: usize) -> Result<Option<Vec<u8>>, Fault> {
        match self.0.get_mut(index) {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Bytes(bytes)) => Ok(Some(std::mem::take(bytes))),
            Some(Cell::Text(text)) => Ok(Some(std::mem::take(text).into_bytes())),
            _ => Err(self.unreadable(index, "bytes")),
        }
    }

    /// A UUID, in whatever form the database keeps it; `None` for NULL and for what is none.
    ///
    /// # Errors
    /// Kind `Internal` for a number.
    pub fn uuid(&self, index: usize) -> Result<Option<Uuid>, Fault> {
        match self.cell(index)? {
            Cell::Null => Ok(None),
            Cell::Uuid(uuid) => Ok(Some(*uuid)),
            Cell::Text(text) => Ok(Uuid::try_parse(text).ok()),
            Cell::Bytes(bytes) => {
                let parsed = Uuid::try_parse_ascii(bytes);
                Ok(Uuid::from_slice(bytes).ok().or(parsed.ok()))
            }
            Cell::Int(_) => Err(self.unreadable(index, "UUID")),
        }
    }

    /// A duration in microseconds; `None` for NULL. What lies in the past is zero.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn duration(&self, index: usize) -> Result<Option<Duration>, Fault> {
        let micros = self.int(index)?;
        Ok(micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
    }

    /// A time in microseconds since 1970. What dates cannot say is 1970.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn instant(&self, index: usize) -> Result<SystemTime, Fault> {
        let micros = self.int(index)?.unwrap_or(0);
        let distance = Duration::from_micros(micros.unsigned_abs());
        let instant = match micros < 0 {
            true => UNIX_EPOCH.checked_sub(distance),
            false => UNIX_EPOCH.checked_add(distance),
        };
        Ok(instant.unwrap_or(UNIX_EPOCH))
    }

    /// A count, none of which is negative.
    ///
    /// # Errors
    /// Kind `Internal` for a column that is none.
    pub fn count(&self, index: usize) -> Result<u64, Fault> {
        Ok(u64::try_from(self.int(index)?.unwrap_or(0)).unwrap_or(0))
    }

    /// A recorded position; the beginning of the log for NULL.
    ///
    /// # Errors
    /// Kind `Internal` for a text that is none.
    pub fn position(&self, index: usize) -> Result<Position, Fault> {
        self.string(index)?.parse().map_err(Fault::internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_is_read_from_every_form_that_a_database_keeps_it_in() {
        let uuid = Uuid::from_u128(7);
        let row = Row(vec![
            Cell::Uuid(uuid),
            Cell::Text(uuid.to_string()),
            Cell::Bytes(uuid.as_bytes().to_vec()),
            Cell::Bytes(uuid.to_string().into_bytes()),
            Cell::Text("no uuid".to_owned()),
            Cell::Null,
        ]);
        for index in 0..4 {
            assert_eq!(row.uuid(index).unwrap(), Some(uuid), "column {index}");
        }
        for index in 4..6 {
            assert_eq!(row.uuid(index).unwrap(), None, "column {index}");
        }
    }

    #[test]
    fn times_outside_of_what_a_clock_can_say_do_no_harm() {
        let row = Row(vec![Cell::Int(-5), Cell::Int(i64::MIN), Cell::Int(i64::MAX)]);
        assert_eq!(row.duration(0).unwrap(), Some(Duration::ZERO));
        assert_eq!(row.instant(0).unwrap(), UNIX_EPOCH - Duration::from_micros(5));
        for index in 1..3 {
            row.instant(index).unwrap();
        }
    }

    #[test]
    fn column_of_another_type_is_an_error_that_names_the_column() {
        let row = Row(vec![Cell::Text("x".to_owned())]);
        let fault = row.int(0).unwrap_err();
        assert!(fault.to_string().contains("no number in column 0"), "{fault}");
        assert!(row.text(1).is_err());
    }

    #[test]
    fn text_that_is_no_utf_8_is_read_all_the_same() {
        let mut row = Row(vec![Cell::Bytes(vec![b'a', 0xff])]);
        assert_eq!(row.string(0).unwrap(), "a\u{fffd}");
        assert_eq!(row.take_text(0).unwrap().as_deref(), Some("a\u{fffd}"));
    }
}
