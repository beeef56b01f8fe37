//! Sources of values: the file, then the environment, then flags, merged into one tree in which
//! every value knows its origin. `read.rs` interprets the values.

use std::{collections::BTreeMap, ffi::OsString, fmt, path::Path};

use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// Prefix of the environment variables that are configuration.
const PREFIX: &str = "POSTHASTE_";

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The default.
    Default,
    /// In the file, at a line and a column counted from 1.
    File {
        /// The file as the user named it.
        file: String,
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
    /// By this environment variable.
    Env(String),
    /// By this flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// A value and where it was set.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The value.
    pub(crate) value: Value,
    /// The place of the value.
    pub(crate) origin: Origin,
    /// The place of its key.
    pub(crate) key_origin: Origin,
}

/// A value of a file or a variable. Variables are always [`Value::Text`]; readers convert.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A boolean.
    Boolean(bool),
    /// An array.
    List(Vec<Node>),
    /// A table.
    Table(Table),
    /// A type that no setting accepts, such as a float or a date, with its name.
    Other(&'static str),
}

/// Keys and values of a table.
pub(crate) type Table = BTreeMap<String, Node>;

/// Reads the file into a tree. Reports all syntax errors and returns the readable part.
pub(crate) fn from_file(path: &Path, text: &str, problems: &mut Vec<Problem>) -> Table {
    let file = path.display().to_string();
    let origin_at = |offset: usize| {
        let before = &text[..floor_char(text, offset)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Origin::File {
            file: file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        // Only the message: the full display quotes the line, which may hold a password.
        let mut problem = Problem::new("PH-2001", format!("not valid TOML: {}", error.message()));
        if let Some(span) = error.span() {
            problem = problem.at(&origin_at(span.start));
        }
        problems.push(problem);
    }
    convert_table(table.get_ref(), &origin_at)
}

fn floor_char(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

fn convert_table(table: &DeTable<'_>, origin_at: &dyn Fn(usize) -> Origin) -> Table {
    let entries = table.iter().map(|(key, value)| {
        let node = Node {
            value: convert(value.get_ref(), origin_at),
            origin: origin_at(value.span().start),
            key_origin: origin_at(key.span().start),
        };
        (key.get_ref().to_string(), node)
    });
    entries.collect()
}

fn convert(value: &DeValue<'_>, origin_at: &dyn Fn(usize) -> Origin) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or(Value::Other("an integer out of range"), Value::Integer),
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Float(_) => Value::Other("a float"),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(list) => {
            let nodes = list.iter().map(|item| {
                let origin = origin_at(item.span().start);
                Node {
                    value: convert(item.get_ref(), origin_at),
                    origin: origin.clone(),
                    key_origin: origin,
                }
            });
            Value::List(nodes.collect())
        }
        DeValue::Table(table) => Value::Table(convert_table(table, origin_at)),
    }
}

/// Lays `POSTHASTE_SECTION__KEY` variables over the tree. Numbers are list indexes; an empty
/// variable counts as unset; variables without `__` are not configuration.
pub(crate) fn merge_env(
    root: &mut Table,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    problems: &mut Vec<Problem>,
) {
    let mut settings: Vec<(Vec<String>, String, OsString)> = variables
        .into_iter()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let path = name.strip_prefix(PREFIX)?;
            let is_setting = path.contains("__") && !value.is_empty();
            let path = path.split("__").map(str::to_lowercase).collect();
            is_setting.then_some((path, name, value))
        })
        .collect();
    // Indexes in the order of their numbers, so that appending 0, 1, … 10 works.
    settings.sort_by_cached_key(|(path, ..)| {
        let part = |part: &String| (part.parse::<usize>().ok(), part.clone());
        path.iter().map(part).collect::<Vec<_>>()
    });
    for (path, name, value) in settings {
        let origin = Origin::Env(name);
        let Ok(value) = value.into_string() else {
            problems.push(Problem::new("PH-2003", "the value is not UTF-8").at(&origin));
            continue;
        };
        let node =
            Node { value: Value::Text(value), origin: origin.clone(), key_origin: origin.clone() };
        if let Err(what) = set(root, &path, node) {
            problems.push(Problem::new("PH-2013", what).at(&origin));
        }
    }
}

/// Environment variables that set nothing because they have one underscore instead of two, each
/// with a message. `is_key` tells whether a section has a key. Empty variables count as not set.
pub(crate) fn misspelt(
    variables: &[(OsString, OsString)],
    is_key: impl Fn(&str, &str) -> bool,
) -> Vec<(String, String)> {
    let is_set = variables.iter().filter(|(_, value)| !value.is_empty());
    let names = is_set.filter_map(|(name, _)| name.to_str());
    let mut found: Vec<_> = names
        .filter_map(|name| {
            let right = meant(name, &is_key)?;
            let what = format!("is not read: two underscores join the parts of a name, {right}");
            Some((name.to_owned(), what))
        })
        .collect();
    found.sort();
    found
}

/// The right name of a variable whose parts are joined by one underscore.
fn meant(name: &str, is_key: impl Fn(&str, &str) -> bool) -> Option<String> {
    let path = name.strip_prefix(PREFIX).filter(|path| !path.contains("__"))?;
    let (section, key) = path.split_once('_')?;
    if is_key(&section.to_lowercase(), &key.to_lowercase()) {
        return Some(format!("{PREFIX}{section}__{key}"));
    }
    let (index, key) = key.split_once('_')?;
    let is_list = ["broker", "route"].contains(&section.to_lowercase().as_str());
    let is_entry = is_list && index.parse::<usize>().is_ok();
    is_entry.then(|| format!("{PREFIX}{section}__{index}__{key}"))
}

/// Sets one value by its path. A later source that sets `url` replaces `url_file`, and the reverse.
///
/// # Errors
/// One line that says why the path matches no setting.
pub(crate) fn set(table: &mut Table, path: &[String], node: Node) -> Result<(), String> {
    let [key, rest @ ..] = path else {
        return Err("the name ends too early".to_owned());
    };
    if key.is_empty() {
        return Err("a part of the name between `__` is empty".to_owned());
    }
    if rest.is_empty() {
        let sibling = match key.as_str() {
            "url" => "url_file",
            "url_file" => "url",
            _ => "",
        };
        if table.get(sibling).is_some_and(|sibling| is_earlier_layer(&sibling.origin, &node.origin))
        {
            table.remove(sibling);
        }
        table.insert(key.clone(), node);
        return Ok(());
    }
    let is_list = rest[0].parse::<usize>().is_ok();
    let entry = table.entry(key.clone()).or_insert_with(|| Node {
        value: if is_list { Value::List(Vec::new()) } else { Value::Table(Table::new()) },
        ..node.clone()
    });
    match &mut entry.value {
        Value::Table(inner) if !is_list => set(inner, rest, node),
        Value::List(items) if is_list => set_item(key, items, rest, node),
        _ if is_list => Err(format!("`{key}` is not a list")),
        Value::List(_) => Err(format!(
            "`{key}` is a list: put an index after it, as in `{}__0__…`",
            key.to_uppercase()
        )),
        _ => Err(format!("`{key}` is a value, not a section")),
    }
}

/// Whether the two origins are of different layers. Two variables, or two lines of the file, that
/// set both `url` and `url_file` are an error, not an override.
fn is_earlier_layer(earlier: &Origin, later: &Origin) -> bool {
    std::mem::discriminant(earlier) != std::mem::discriminant(later)
}

fn set_item(key: &str, items: &mut Vec<Node>, path: &[String], node: Node) -> Result<(), String> {
    let index: usize = path[0].parse().map_err(|_| "not an index".to_owned())?;
    if index > items.len() {
        return Err(format!(
            "index {index} leaves a gap: `{key}` has {} entries so far",
            items.len()
        ));
    }
    if index == items.len() {
        items.push(Node { value: Value::Table(Table::new()), ..node.clone() });
    }
    if path.len() == 1 {
        items[index] = node;
        return Ok(());
    }
    match &mut items[index].value {
        Value::Table(table) => set(table, &path[1..], node),
        _ => Err(format!("`{key}[{index}]` is a value, not a section")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(text: &str, variables: &[(&str, &str)]) -> (Table, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut root = from_file(Path::new("p.toml"), text, &mut problems);
        let variables = variables.iter().map(|(n, v)| (n.into(), v.into()));
        merge_env(&mut root, variables, &mut problems);
        (root, problems)
    }

    #[test]
    fn variables_with_one_underscore_too_few_are_found() {
        let keys = [("store", "url"), ("store", "url_file"), ("log", "level"), ("http", "listen")];
        let found = |name: &str, value: &str| {
            misspelt(&[(name.into(), value.into())], |section, key| keys.contains(&(section, key)))
        };
        for (name, right) in [
            ("POSTHASTE_STORE_URL", Some("POSTHASTE_STORE__URL")),
            ("POSTHASTE_STORE_URL_FILE", Some("POSTHASTE_STORE__URL_FILE")),
            ("POSTHASTE_LOG_LEVEL", Some("POSTHASTE_LOG__LEVEL")),
            ("POSTHASTE_BROKER_0_URL", Some("POSTHASTE_BROKER__0__URL")),
            ("POSTHASTE_STORE__URL", None),
            ("POSTHASTE_BROKER_IMAGE", None),
            // What Kubernetes sets for a service of that name.
            ("POSTHASTE_HTTP_SERVICE_HOST", None),
            ("POSTHASTE_TEST_POSTGRES_URL", None),
            ("OTHER_STORE_URL", None),
        ] {
            let all = found(name, "x");
            assert_eq!(all.len(), usize::from(right.is_some()), "{name}");
            assert!(all.iter().all(|(_, what)| what.ends_with(right.unwrap_or_default())));
            assert!(found(name, "").is_empty(), "{name} is empty");
        }
    }

    fn section<'a>(table: &'a Table, key: &str) -> &'a Table {
        match &table[key].value {
            Value::Table(table) => table,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn locations_count_lines_and_characters() {
        let (root, problems) = merged("# é\n[relay]\nname = \"é\" # x\npoll = 1\n", &[]);
        assert!(problems.is_empty());
        let relay = section(&root, "relay");
        assert_eq!(relay["name"].origin.to_string(), "p.toml:3:8");
        assert_eq!(relay["poll"].key_origin.to_string(), "p.toml:4:1");
    }

    #[test]
    fn the_environment_wins_and_knows_its_variable() {
        let (root, problems) = merged(
            "[relay]\npoll = \"1s\"\n[[route]]\nname = \"a\"\n",
            &[
                ("POSTHASTE_RELAY__POLL", "2s"),
                ("POSTHASTE_RELAY__NAME", ""),
                ("POSTHASTE_ROUTE__0__TOPICS", "x,y"),
                ("POSTHASTE_ROUTE__1__RETRY__AGE", "1h"),
                ("POSTHASTE_TEST_URL", "not configuration"),
            ],
        );
        assert!(problems.is_empty(), "{problems:?}");
        let relay = section(&root, "relay");
        assert!(matches!(&relay["poll"].value, Value::Text(text) if text == "2s"));
        assert!(!relay.contains_key("name"), "empty counts as unset");
        let Value::List(routes) = &root["route"].value else {
            panic!("routes are a list");
        };
        assert_eq!(routes.len(), 2);
    }

    #[test]
    fn paths_that_lead_nowhere_are_problems() {
        let (_, problems) = merged(
            "[relay]\npoll = \"1s\"\n",
            &[
                ("POSTHASTE_RELAY__POLL__X", "1"),
                ("POSTHASTE_RELAY__0__POLL", "1"),
                ("POSTHASTE_ROUTE__3__NAME", "gap"),
            ],
        );
        assert_eq!(problems.len(), 3, "{problems:?}");
    }

    #[test]
    fn a_later_layer_replaces_url_by_url_file() {
        let (root, _) = merged("[store]\nurl = \"a:\"\n", &[("POSTHASTE_STORE__URL_FILE", "f")]);
        assert_eq!(section(&root, "store").len(), 1);
    }

    #[test]
    fn every_syntax_error_has_a_place_and_no_quote() {
        let (_, problems) = merged("[store]\nurl = hunter2\npoll = = 3\n", &[]);
        assert!(!problems.is_empty());
        for problem in problems {
            let text = problem.to_string();
            assert!(text.contains("p.toml:"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
