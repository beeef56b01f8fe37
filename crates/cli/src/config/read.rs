//! Typed readers over the merged tree. A reader does not stop at the first problem: it records the
//! problem and goes on with the default. It remembers the keys that were asked for; all other keys
//! are unknown.

use super::{
    problem::{Problem, redact},
    setting::Setting,
    sources::{Node, Origin, Table, Value},
};

/// The result of reading: the problems, and every effective value for `config show`.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// All problems.
    pub(crate) problems: Vec<Problem>,
    /// Every value that was read, in the order it was read.
    pub(crate) shown: Vec<Shown>,
}

/// One effective value.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// The section: `relay`, `route[0]`.
    pub(crate) section: String,
    /// The key in it.
    pub(crate) key: &'static str,
    /// The value as TOML, with secrets redacted; `None` if it is not set and has no default.
    pub(crate) value: Option<String>,
    /// The source of the value.
    pub(crate) origin: Origin,
}

/// One table while it is read.
pub(crate) struct Section<'a> {
    /// `relay`, `route[0].retry`; empty for the root.
    pub(crate) path: String,
    table: Option<&'a Table>,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The root.
    pub(crate) fn root(table: &'a Table) -> Self {
        Self { path: String::new(), table: Some(table), asked: Vec::new() }
    }

    /// A table in this one; empty if it is missing.
    pub(crate) fn section(&mut self, key: &'static str, reading: &mut Reading) -> Section<'a> {
        let table = match self.take(key) {
            None => None,
            Some(node) => match &node.value {
                Value::Table(table) => Some(table),
                _ => {
                    let example = format!("a section, written `[{}]`", self.key(key));
                    reading.problems.push(wrong_type(&self.key(key), node, &example));
                    None
                }
            },
        };
        Section { path: self.key(key), table, asked: Vec::new() }
    }

    /// The tables of a list of tables.
    pub(crate) fn sections(
        &mut self,
        key: &'static str,
        reading: &mut Reading,
    ) -> Vec<Section<'a>> {
        let Some(node) = self.take(key) else {
            return Vec::new();
        };
        let wanted = format!("a list of sections, each written `[[{}]]`", self.key(key));
        let Value::List(items) = &node.value else {
            reading.problems.push(wrong_type(&self.key(key), node, &wanted));
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{}[{index}]", self.key(key));
            if let Value::Table(table) = &item.value {
                sections.push(Section { path, table: Some(table), asked: Vec::new() });
            } else {
                reading.problems.push(wrong_type(&path, item, &wanted));
            }
        }
        sections
    }

    /// The value of a key if it is set and valid.
    pub(crate) fn get<T: Setting>(
        &mut self,
        key: &'static str,
        reading: &mut Reading,
    ) -> Option<T> {
        let Some(node) = self.take(key) else {
            self.show(key, None, &Origin::Default, reading);
            return None;
        };
        match T::parse(&node.value) {
            Ok(value) => {
                self.show(key, Some(value.show()), &node.origin, reading);
                Some(value)
            }
            Err(None) => {
                let wanted = T::WANTED;
                reading.problems.push(wrong_type(&self.key(key), node, wanted));
                None
            }
            Err(Some(rule)) => {
                let what = format!("`{}` is {}: {rule}", self.key(key), describe(&node.value));
                let problem = Problem::new("PH-2004", what).at(&node.origin);
                reading.problems.push(problem.help(format!("give {}", T::WANTED)));
                None
            }
        }
    }

    /// The value of a key, or the default.
    pub(crate) fn or<T: Setting>(
        &mut self,
        key: &'static str,
        default: T,
        reading: &mut Reading,
    ) -> T {
        let is_set = self.origin(key) != Origin::Default;
        let shown = reading.shown.len();
        let value = self.get(key, reading);
        if !is_set {
            reading.shown.truncate(shown);
            self.show(key, Some(default.show()), &Origin::Default, reading);
        }
        value.unwrap_or(default)
    }

    /// The value of a key, or the default, within bounds.
    pub(crate) fn within<T: Setting + PartialOrd>(
        &mut self,
        key: &'static str,
        default: T,
        bounds: std::ops::RangeInclusive<T>,
        reading: &mut Reading,
    ) -> T {
        let value = self.or(key, default, reading);
        if !bounds.contains(&value) {
            let (min, max) = (bounds.start().show(), bounds.end().show());
            let what = format!("`{}` is {}", self.key(key), value.show());
            let problem = Problem::new("PH-2005", what).at(&self.origin(key));
            let help = format!("give a value from {min} to {max}");
            reading.problems.push(problem.help(help));
        }
        value
    }

    /// The value of a key with a fixed set of values, or the default.
    pub(crate) fn word<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        default: T,
        words: &[(&'static str, T)],
        reading: &mut Reading,
    ) -> T {
        let usual = words.iter().find(|(_, value)| *value == default);
        let usual = usual.map(|(word, _)| *word).unwrap_or_default();
        let text = self.or(key, usual.to_owned(), reading);
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return *value;
        }
        let what = format!("`{}` is {:?}", self.key(key), redact(&text));
        let known: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let help = format!("give one of {}", known.join(", "));
        reading.problems.push(Problem::new("PH-2004", what).at(&self.origin(key)).help(help));
        default
    }

    /// The value of a key that must be set.
    pub(crate) fn required<T: Setting>(
        &mut self,
        key: &'static str,
        help: &str,
        reading: &mut Reading,
    ) -> Option<T> {
        if self.origin(key) == Origin::Default {
            let what = format!("`{}` is missing", self.key(key));
            reading.problems.push(Problem::new("PH-2006", what).at(&self.place()).help(help));
        }
        self.get(key, reading)
    }

    /// Reports every unknown key: every key that was not asked for. Call it last.
    pub(crate) fn finish(self, reading: &mut Reading) {
        for (key, node) in self.table.into_iter().flatten() {
            if self.asked.contains(&key.as_str()) {
                continue;
            }
            let what = format!("unknown key `{}`", self.key(key));
            let problem = Problem::new("PH-2002", what).at(&node.key_origin);
            let help = match nearest(key, &self.asked) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", self.asked.join(", ")),
            };
            reading.problems.push(problem.help(help));
        }
    }

    /// The source of the key's value.
    pub(crate) fn origin(&self, key: &str) -> Origin {
        let node = self.table.and_then(|table| table.get(key));
        node.map_or(Origin::Default, |node| node.origin.clone())
    }

    /// The full name of a key.
    pub(crate) fn key(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// The place of the section: that of its first key.
    pub(crate) fn place(&self) -> Origin {
        let nodes = self.table.into_iter().flat_map(Table::values);
        let place = |origin: &Origin| match origin {
            Origin::File { line, .. } => *line,
            _ => usize::MAX,
        };
        nodes.map(|node| node.key_origin.clone()).min_by_key(place).unwrap_or(Origin::Default)
    }

    fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        self.asked.push(key);
        self.table?.get(key)
    }

    fn show(&self, key: &'static str, value: Option<String>, origin: &Origin, to: &mut Reading) {
        to.shown.push(Shown { section: self.path.clone(), key, value, origin: origin.clone() });
    }
}

/// The candidate most similar to the word, if one is similar enough.
pub(crate) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(&word.to_lowercase(), candidate);
    candidates
        .iter()
        .copied()
        .filter(|candidate| likeness(candidate) > 0.8)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

fn wrong_type(key: &str, node: &Node, wanted: &str) -> Problem {
    let what = format!("`{key}` is {}", describe(&node.value));
    Problem::new("PH-2003", what).at(&node.origin).help(format!("give {wanted}"))
}

fn describe(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{:?}", redact(text)),
        Value::Integer(integer) => format!("the number {integer}"),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::List(_) => "a list".to_owned(),
        Value::Table(_) => "a section".to_owned(),
        Value::Other(word) => (*word).to_owned(),
    }
}
