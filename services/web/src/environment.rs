//! Configuration from environment variables: every problem at once, each naming its variable.

use std::{collections::BTreeMap, env, str::FromStr};

use anyhow::bail;

/// Reads variables one by one. An empty variable counts as not set. Problems are collected until
/// [`finish`](Self::finish); until then the default replaces a wrong value.
#[derive(Debug, Default)]
pub struct Environment {
    values: BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Environment {
    /// The variables of this process. A variable that is not UTF-8 counts as not set.
    #[must_use]
    pub fn of_process() -> Self {
        let pairs = env::vars_os();
        pairs
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Whether a variable is set.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|value| !value.is_empty())
    }

    /// A text, or the default.
    #[must_use]
    pub fn text(&self, name: &str, default: &str) -> String {
        self.optional(name).unwrap_or_else(|| default.to_owned())
    }

    /// A text, if there is one.
    #[must_use]
    pub fn optional(&self, name: &str) -> Option<String> {
        self.values.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// A value of some type, or the default. `rule` completes "must be ...". Not for secrets: what
    /// cannot be read is quoted.
    pub fn parse<T: FromStr>(&mut self, name: &str, default: T, rule: &str) -> T {
        self.parse_with(name, default, rule, |text| text.parse().ok())
    }

    /// The same, with a function that reads it.
    pub fn parse_with<T>(
        &mut self,
        name: &str,
        default: T,
        rule: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> T {
        let Some(text) = self.optional(name) else { return default };
        read(text.trim()).unwrap_or_else(|| {
            self.refuse(name, &text, &format!("must be {rule}"));
            default
        })
    }

    /// Remembers that a variable is wrong. `shown` is its value as far as that may be seen, `rule`
    /// what it must be: "must be ...".
    pub fn refuse(&mut self, name: &str, shown: &str, rule: &str) {
        self.problems.push(format!("{name} is {shown:?}, but {rule}"));
    }

    /// The end of reading.
    ///
    /// # Errors
    /// Every problem, in one message.
    pub fn finish(self) -> anyhow::Result<()> {
        if !self.problems.is_empty() {
            bail!("{}", self.problems.join("; "));
        }
        Ok(())
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self { values: pairs.into_iter().collect(), problems: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let mut environment = environment(&[("PORT", ""), ("HOST", "")]);
        assert!(!environment.has("HOST"));
        assert_eq!(environment.text("HOST", "localhost"), "localhost");
        assert_eq!(environment.parse("PORT", 8080_u16, "a port"), 8080);
        environment.finish().unwrap();
    }

    #[test]
    fn every_problem_is_named_with_its_variable() {
        let mut environment = environment(&[("A", "abc"), ("B", "-1"), ("C", "7")]);
        environment.parse("A", 1_u16, "a port");
        environment.parse("B", 1_u16, "a number");
        assert_eq!(environment.parse("C", 1_u16, "a number"), 7);
        let text = environment.finish().unwrap_err().to_string();
        assert_eq!(text, r#"A is "abc", but must be a port; B is "-1", but must be a number"#);
    }
}
