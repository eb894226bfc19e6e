//! The problems of a file of rules.

use std::error::Error;
use std::fmt;

/// All that is wrong with a text of rules, or with several: at least one problem, in the order of
/// the texts and their lines.
///
/// ```
/// use leaparray_rules::RuleSet;
///
/// let text = "[[rule]]\nname = \"orders\"\nresouce = \"GET /orders\"\nlimit = \"5 per sec ond\"";
/// let problems = RuleSet::parse(text).unwrap_err().in_source("limits.toml");
/// assert_eq!(
///     problems.to_string(),
///     "limits.toml:1: rule \"orders\": lacks a resource; write one of `resource`, `outbound`, \
///      `either`\n\
///      limits.toml:3: rule \"orders\": resouce: unknown key; did you mean `resource`?\n\
///      limits.toml:4: rule \"orders\": limit: \"sec ond\" is no interval; write a rate such as \
///      \"1000 per second\", \"5 per 10s\" or \"50 per minute, bursts of 10\"",
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Problems {
    /// The problems.
    pub list: Vec<Problem>,
}

/// One thing that is wrong with a text of rules.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// The name of the file, or of another source; empty if it has none.
    pub source: String,
    /// The line, from 1.
    pub line: usize,
    /// The name of the rule, if it has one.
    pub rule: Option<String>,
    /// The key, such as `limit` or `breaker.wait`; empty if the problem is no single key's.
    pub key: String,
    /// The fault, and the value that would be right.
    pub fault: Fault,
}

/// A fault, and the text that would be right.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The text is not in the format.
    Syntax {
        /// The format.
        format: &'static str,
        /// The message of the parser.
        message: String,
    },
    /// There is no such key.
    UnknownKey {
        /// The known key that is most like it, if one is like it.
        near: Option<&'static str>,
        /// All keys of the table.
        known: &'static [&'static str],
    },
    /// None of these keys is there.
    Missing {
        /// A description of the missing part.
        what: &'static str,
        /// The keys of which one would be right.
        one_of: &'static [&'static str],
    },
    /// The key cannot stand beside another one.
    Beside {
        /// The other key.
        other: &'static str,
    },
    /// The key needs another one.
    Needs {
        /// The other key.
        other: &'static str,
    },
    /// The value is of another type.
    Type {
        /// The type that was found.
        found: &'static str,
        /// The value that would be right.
        right: &'static str,
    },
    /// The value is none that the key can have.
    Value {
        /// A description of the fault.
        wrong: String,
        /// The value that would be right.
        right: &'static str,
    },
    /// A rule before has the same name.
    Duplicate {
        /// The line of that rule.
        line: usize,
    },
    /// The limiter cannot be made with these numbers.
    Limiter {
        /// The error of the limiter.
        error: String,
    },
}

impl Problems {
    pub(crate) const fn of(list: Vec<Problem>) -> Self {
        Self { list }
    }

    /// Returns the problems with the name of their source, which each line of the message begins
    /// with. A problem that has one keeps it.
    #[must_use]
    pub fn in_source(mut self, source: &str) -> Self {
        for problem in self.list.iter_mut().filter(|it| it.source.is_empty()) {
            source.clone_into(&mut problem.source);
        }
        self
    }
}

impl Problem {
    pub(crate) const fn new(line: usize, rule: Option<String>, key: String, fault: Fault) -> Self {
        Self { source: String::new(), line, rule, key, fault }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { format, message } => write!(f, "no {format}: {message}"),
            Self::UnknownKey { near: Some(near), .. } => {
                write!(f, "unknown key; did you mean `{near}`?")
            }
            Self::UnknownKey { near: None, known } => {
                write!(f, "unknown key; the keys are {}", Listed(known))
            }
            Self::Missing { what, one_of: [one] } => write!(f, "lacks {what}; write `{one}`"),
            Self::Missing { what, one_of } => {
                write!(f, "lacks {what}; write one of {}", Listed(one_of))
            }
            Self::Beside { other } => {
                write!(f, "cannot stand beside `{other}`; remove one of them")
            }
            Self::Needs { other } => {
                write!(f, "has no meaning without `{other}`; add that, or remove this key")
            }
            Self::Type { found, right } => write!(f, "is {found}; write {right}"),
            Self::Value { wrong, right } => write!(f, "{wrong}; write {right}"),
            Self::Duplicate { line } => {
                write!(f, "the rule of line {line} has this name; each needs a name of its own")
            }
            Self::Limiter { error } => f.write_str(error),
        }
    }
}

/// Keys in a sentence.
struct Listed<'a>(&'a [&'a str]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.0.iter().enumerate() {
            write!(f, "{}`{key}`", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, line, rule, key, fault } = self;
        let (source, between) = if source.is_empty() { ("line", ' ') } else { (&**source, ':') };
        write!(f, "{source}{between}{line}: ")?;
        if let Some(rule) = rule {
            write!(f, "rule {rule:?}: ")?;
        }
        if !key.is_empty() {
            write!(f, "{key}: ")?;
        }
        fault.fmt(f)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{problem}")?;
        }
        Ok(())
    }
}

impl Error for Problems {}
