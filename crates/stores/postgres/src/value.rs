//! Parameters and rows between the engine and sqlx. All numbers are bound as `int8`.

use posthaste_store_sql::{Cell, Fault, Reuse, Row, Text, Value};
use sqlx::{
    Arguments, Postgres, Row as _, TypeInfo, ValueRef,
    error::BoxDynError,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use uuid::Uuid;

/// A statement with its parameters.
pub(crate) fn query(
    text: &'static Text,
    arguments: PgArguments,
    reuse: Reuse,
) -> Query<'static, Postgres, PgArguments> {
    sqlx::query_with(text.sql.as_str(), arguments).persistent(reuse == Reuse::Named)
}

/// The parameters of a statement.
pub(crate) fn arguments(values: &[&Value<'_>]) -> Result<PgArguments, Fault> {
    let mut arguments = PgArguments::default();
    for value in values {
        add(&mut arguments, value).map_err(unbindable)?;
    }
    Ok(arguments)
}

fn add(arguments: &mut PgArguments, value: &Value<'_>) -> Result<(), BoxDynError> {
    match value {
        Value::Int(number) => arguments.add(*number),
        Value::Bool(truth) => arguments.add(*truth),
        Value::Text(text) => arguments.add(text.as_deref()),
        Value::Bytes(bytes) => arguments.add(*bytes),
        Value::Uuid(uuid) => arguments.add(*uuid),
        Value::Ints(numbers) => arguments.add(&**numbers),
        Value::Texts(texts) => arguments.add(&**texts),
        Value::Uuids(uuids) => arguments.add(uuids.as_deref()),
        Value::Pairs(pairs) => arguments.add(Value::pairs_to_json(pairs)),
    }
}

/// The parameters of a statement that takes an array for each of them, with an item for each row.
pub(crate) fn columns(rows: &[Vec<&Value<'_>>]) -> Result<PgArguments, Fault> {
    let mut arguments = PgArguments::default();
    for index in 0..rows.first().map_or(0, Vec::len) {
        let column = rows.iter().filter_map(|row| row.get(index).copied());
        add_column(&mut arguments, column, rows.len()).map_err(unbindable)?;
    }
    Ok(arguments)
}

/// Binds the values of one parameter in all rows as an array.
fn add_column<'p, 'v: 'p>(
    arguments: &mut PgArguments,
    values: impl Iterator<Item = &'p Value<'v>>,
    rows: usize,
) -> Result<(), BoxDynError> {
    let (mut ints, mut bools, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut uuids) = (Vec::new(), Vec::new());
    for value in values {
        match value {
            Value::Int(number) => ints.push(*number),
            Value::Bool(truth) => bools.push(*truth),
            Value::Text(text) => texts.push(text.as_deref()),
            Value::Bytes(value) => bytes.push(*value),
            Value::Uuid(uuid) => uuids.push(*uuid),
            _ => return Err("a list in one row of several".into()),
        }
    }
    if ints.len() == rows {
        arguments.add(ints)
    } else if bools.len() == rows {
        arguments.add(bools)
    } else if texts.len() == rows {
        arguments.add(texts)
    } else if bytes.len() == rows {
        arguments.add(bytes)
    } else if uuids.len() == rows {
        arguments.add(uuids)
    } else {
        Err("values of several types for one parameter".into())
    }
}

fn unbindable(error: BoxDynError) -> Fault {
    Fault::internal(format!("a parameter cannot be bound: {error}"))
}

/// A row as the engine reads it.
pub(crate) fn row(row: &PgRow) -> Result<Row, sqlx::Error> {
    (0..row.len()).map(|index| cell(row, index)).collect::<Result<_, _>>().map(Row)
}

fn cell(row: &PgRow, index: usize) -> Result<Cell, sqlx::Error> {
    let value = row.try_get_raw(index)?;
    if value.is_null() {
        return Ok(Cell::Null);
    }
    // Unchecked: the type was just looked at.
    Ok(match value.type_info().name() {
        "INT8" => Cell::Int(row.try_get_unchecked(index)?),
        "INT4" => Cell::Int(row.try_get_unchecked::<i32, _>(index)?.into()),
        "BOOL" => Cell::Int(row.try_get_unchecked::<bool, _>(index)?.into()),
        "UUID" => Cell::Uuid(row.try_get_unchecked::<Uuid, _>(index)?),
        "BYTEA" => Cell::Bytes(row.try_get_unchecked(index)?),
        _ => Cell::Text(row.try_get_unchecked(index)?),
    })
}
