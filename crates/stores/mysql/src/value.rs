//! Parameters and rows, to the driver's and back.

use posthaste_store_sql::{Cell, Fault, Row, Value, json_array};
use sqlx::{
    Column, Decode, MySql, Row as _, TypeInfo, ValueRef,
    mysql::{MySqlArguments, MySqlRow},
    query::Query,
};

use crate::error::fault;

/// The statement with its next parameter. Texts are bound as their bytes, so that no character set or
/// collation has a say; lists as JSON arrays, which `JSON_TABLE` takes only as texts.
pub(crate) fn bind<'q>(
    query: Query<'q, MySql, MySqlArguments>,
    value: &Value<'_>,
) -> Query<'q, MySql, MySqlArguments> {
    match value {
        Value::Int(number) => query.bind(*number),
        Value::Bool(truth) => query.bind(i64::from(*truth)),
        Value::Text(text) => query.bind(text.as_ref().map(|text| text.as_bytes())),
        Value::Bytes(bytes) => query.bind(*bytes),
        Value::Uuid(uuid) => query.bind(uuid.map(|uuid| uuid.to_string())),
        Value::Ints(numbers) => query.bind(json_array(numbers.iter().copied())),
        Value::Texts(texts) => query.bind(hex_array(texts)),
        Value::Uuids(uuids) => query
            .bind(uuids.as_ref().map(|uuids| json_array(uuids.iter().map(ToString::to_string)))),
        Value::Pairs(pairs) => query.bind(Value::pairs_to_json(pairs)),
    }
}

/// Texts as a JSON array of their bytes in hex.
fn hex_array(texts: &[String]) -> String {
    let hex = |text: &String| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    json_array(texts.iter().map(hex))
}

/// How the values of a column are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    Signed,
    Unsigned,
    /// Digits.
    Decimal,
    Bytes,
}

impl Reading {
    /// How each column of a statement is read, by its type.
    pub(crate) fn of(row: &MySqlRow) -> Vec<Self> {
        row.columns().iter().map(|column| Self::by_name(column.type_info().name())).collect()
    }

    fn by_name(name: &str) -> Self {
        match name {
            "BOOLEAN" | "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT" => Self::Signed,
            "DECIMAL" => Self::Decimal,
            _ if name.ends_with(" UNSIGNED") => Self::Unsigned,
            _ => Self::Bytes,
        }
    }

    fn cell(self, row: &MySqlRow, index: usize) -> Result<Cell, Fault> {
        let value = row.try_get_raw(index).map_err(fault)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        Ok(match self {
            Self::Signed => Cell::Int(<i64 as Decode<MySql>>::decode(value).map_err(unreadable)?),
            Self::Unsigned => {
                let number = <u64 as Decode<MySql>>::decode(value).map_err(unreadable)?;
                Cell::Int(i64::try_from(number).map_err(Fault::internal)?)
            }
            Self::Decimal => {
                let digits = <&str as Decode<MySql>>::decode(value).map_err(unreadable)?;
                Cell::Int(digits.parse().map_err(Fault::internal)?)
            }
            Self::Bytes => {
                Cell::Bytes(<Vec<u8> as Decode<MySql>>::decode(value).map_err(unreadable)?)
            }
        })
    }
}

/// A row, whose columns are read so.
pub(crate) fn row(row: &MySqlRow, readings: &[Reading]) -> Result<Row, Fault> {
    let cells = readings.iter().enumerate().map(|(index, reading)| reading.cell(row, index));
    Ok(Row(cells.collect::<Result<_, _>>()?))
}

fn unreadable(error: sqlx::error::BoxDynError) -> Fault {
    fault(sqlx::Error::Decode(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_list_go_as_their_bytes() {
        assert_eq!(hex_array(&["é".to_owned(), "q ".to_owned()]), r#"["c3a9","7120"]"#);
    }
}
