//! Subjects: which are legal, and how topic patterns become filters.

use posthaste_core::{Failure, TopicPattern};

/// Longest subject: the server reads at most 4096 bytes in a line, with the reply subject in it.
const SUBJECT_BYTES_MAX: usize = 2048;

/// Refuses what the server would not take as a subject, or takes for something else.
pub(crate) fn check(subject: &str) -> Result<(), Failure> {
    let rule = if subject.split('.').any(str::is_empty) {
        "has an empty part"
    } else if subject.contains(|c: char| c.is_whitespace() || c.is_control()) {
        "has a space or a control character in it"
    } else if subject.contains(['*', '>']) {
        "has a wildcard in it"
    } else if subject.starts_with('$') || subject == "_INBOX" || subject.starts_with("_INBOX.") {
        "belongs to the server"
    } else if subject.len() > SUBJECT_BYTES_MAX {
        "is longer than 2048 bytes"
    } else {
        return Ok(());
    };
    Err(Failure::new("topic", format!("{subject:?} is not a subject to publish to: it {rule}")))
}

/// The narrowest filter that lets everything through that the pattern matches.
pub(crate) fn filter(pattern: &TopicPattern) -> String {
    let Some((head, _)) = pattern.as_str().split_once('*') else {
        return pattern.as_str().to_owned();
    };
    // The part with the star may be cut anywhere, so it is left open as a whole.
    match head.rsplit_once('.') {
        Some((parts, _)) => format!("{parts}.>"),
        None => ">".to_owned(),
    }
}

/// The narrowest filter that lets everything through that any of these lets through.
pub(crate) fn union(filters: &[String]) -> String {
    let Some((first, rest)) = filters.split_first() else { return ">".to_owned() };
    if rest.iter().all(|filter| filter == first) {
        return first.clone();
    }
    // A filter's last part is never common to all: a longer subject may be wanted.
    let parts = |filter: &String| -> Vec<String> {
        let mut parts: Vec<String> = filter.split('.').map(str::to_owned).collect();
        parts.pop();
        parts
    };
    let mut common = parts(first);
    for filter in rest {
        let other = parts(filter);
        let same = common.iter().zip(&other).take_while(|(a, b)| a == b).count();
        common.truncate(same);
    }
    common.push(">".to_owned());
    common.join(".")
}

/// Whether there can be a subject that both let through.
pub(crate) fn overlap(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        match (one.next(), other.next()) {
            (None, None) | (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            _ => return false,
        }
    }
}

/// Whether the filter lets nothing through that the subject, which may have wildcards, does not.
pub(crate) fn is_within(filter: &str, subject: &str) -> bool {
    let (mut filter, mut subject) = (filter.split('.'), subject.split('.'));
    loop {
        match (filter.next(), subject.next()) {
            (None, None) | (Some(_), Some(">")) => return true,
            (Some(">"), _) => return false,
            (Some(a), Some(b)) if a == b || b == "*" => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_subjects_are_published_to() {
        for good in ["orders", "orders.eu", "a-b_c/d", "über.größe", "a$b"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = "x".repeat(SUBJECT_BYTES_MAX + 1);
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a\tb",
            "a\r\nPUB x",
            "*",
            "a.*",
            "a*",
            ">",
            "a.>",
            "$JS.API.INFO",
            "$SYS.x",
            "_INBOX.x",
            &long,
        ] {
            assert_eq!(check(bad).unwrap_err().class, "topic", "{bad}");
        }
    }

    #[test]
    fn filters_are_as_narrow_as_they_can_be() {
        for (pattern, expected) in [
            ("orders", "orders"),
            ("orders.*", "orders.>"),
            ("orders.eu*", "orders.>"),
            ("shop.orders.*.placed", "shop.orders.>"),
            ("orders*", ">"),
            ("*", ">"),
        ] {
            assert_eq!(filter(&pattern.parse().unwrap()), expected, "{pattern}");
        }
        for (filters, expected) in [
            (vec!["a.b"], "a.b"),
            (vec!["a.b", "a.b"], "a.b"),
            (vec!["a.b", "a.c"], "a.>"),
            (vec!["a.b", "a.b.c"], "a.>"),
            (vec!["a.>", "a.b.c"], "a.>"),
            (vec!["a", "b"], ">"),
            (vec!["s.a.>", "s.b.>"], "s.>"),
        ] {
            let filters: Vec<String> = filters.into_iter().map(str::to_owned).collect();
            assert_eq!(union(&filters), expected, "{filters:?}");
        }
    }

    #[test]
    fn a_filter_is_within_what_is_wider() {
        for (filter, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.*", true),
            ("a.b.c", "a.>", true),
            ("a.>", "a.>", true),
            ("a.>", "a.*", false),
            (">", "a.>", false),
            ("a.*", "a.b", false),
            ("a", "a.>", false),
        ] {
            assert_eq!(is_within(filter, subject), expected, "{filter} {subject}");
        }
    }

    #[test]
    fn overlap_is_mutual() {
        for (one, other, expected) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "x.y", true),
            ("*.b", "a.*", true),
            ("a.b", "a", false),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
            assert_eq!(overlap(other, one), expected, "{other} {one}");
        }
    }
}
