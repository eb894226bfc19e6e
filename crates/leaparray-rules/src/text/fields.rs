//! The keys and values of a table, with their lines, and what is wrong with them.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{Fault, Problem};

/// Where the lines of a text begin.
pub(crate) struct Lines(Vec<usize>);

/// A table of the file.
pub(super) struct Fields<'t> {
    pub(super) table: &'t DeTable<'t>,
    /// The keys that it can have.
    pub(super) known: &'static [&'static str],
    /// The keys that lead to it, such as `breaker.`.
    pub(super) at: &'static str,
    pub(super) line: usize,
    /// The name of the rule.
    pub(super) rule: Option<&'t str>,
    pub(super) lines: &'t Lines,
    pub(super) problems: &'t RefCell<Vec<Problem>>,
}

/// A value of a table.
pub(super) struct Value<'t> {
    pub(super) key: &'static str,
    pub(super) line: usize,
    pub(super) found: &'t DeValue<'t>,
}

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    /// Returns the line of a place, from 1.
    pub(crate) fn of(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at) + 1
    }
}

pub(super) const fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

impl<'t> Fields<'t> {
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(super) fn get(&self, key: &'static str) -> Option<Value<'t>> {
        let (name, value) = self.table.get_key_value(key)?;
        Some(Value { key, line: self.lines.of(name.span().start), found: value.get_ref() })
    }

    /// Returns the line of a key, or of the table if it lacks the key.
    pub(super) fn line_of(&self, key: &'static str) -> usize {
        self.get(key).map_or(self.line, |it| it.line)
    }

    pub(super) fn report(&self, key: &str, line: usize, fault: Fault) {
        let (rule, key) = (self.rule.map(str::to_owned), format!("{}{key}", self.at));
        self.problems.borrow_mut().push(Problem::new(line, rule, key, fault));
    }

    pub(super) fn report_missing(&self, what: &'static str, one_of: &'static [&'static str]) {
        let (rule, key) = (self.rule.map(str::to_owned), self.at.trim_end_matches('.').to_owned());
        let fault = Fault::Missing { what, one_of };
        self.problems.borrow_mut().push(Problem::new(self.line, rule, key, fault));
    }

    pub(super) fn report_type(&self, value: &Value<'_>, right: &'static str) {
        let found = type_of(value.found);
        self.report(value.key, value.line, Fault::Type { found, right });
    }

    /// Reports the keys that are not known.
    pub(super) fn report_unknown(&self) {
        for key in self.table.keys() {
            let name = key.get_ref();
            if self.known.iter().any(|known| known == name) {
                continue;
            }
            let likeness = |known: &&'static str| strsim::jaro_winkler(known, name);
            let near =
                self.known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
            let near = near.filter(|it| likeness(it) > 0.8);
            let fault = Fault::UnknownKey { near, known: self.known };
            self.report(name, self.lines.of(key.span().start), fault);
        }
    }

    /// Returns the text of a key. `None` if there is none, or if it is no text, which is reported.
    pub(super) fn text(&self, key: &'static str, right: &'static str) -> Option<&'t str> {
        let value = self.get(key)?;
        if let DeValue::String(text) = value.found {
            return Some(text);
        }
        self.report_type(&value, right);
        None
    }

    /// Like [`text`](Self::text), for a text with a meaning.
    pub(super) fn parsed<T, E: ToString>(
        &self,
        key: &'static str,
        right: &'static str,
        parse: impl FnOnce(&'t str) -> Result<T, E>,
    ) -> Option<T> {
        let parsed = parse(self.text(key, right)?);
        parsed.map_err(|error| self.report_value(key, error.to_string(), right)).ok()
    }

    pub(super) fn report_value(&self, key: &'static str, wrong: String, right: &'static str) {
        self.report(key, self.line_of(key), Fault::Value { wrong, right });
    }

    /// Returns the texts of a key that has one, or an array of them.
    pub(super) fn texts(&self, key: &'static str, right: &'static str) -> Vec<&'t str> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let items: Vec<_> = match value.found {
            DeValue::Array(all) => all.iter().map(Spanned::get_ref).collect(),
            one => vec![one],
        };
        let mut texts = Vec::with_capacity(items.len());
        for item in &items {
            match item {
                DeValue::String(text) if text.trim() != *text => {
                    let wrong = format!("{text:?} begins or ends with a space");
                    self.report_value(key, wrong, right);
                }
                DeValue::String(text) if !text.is_empty() => texts.push(&**text),
                DeValue::String(_) => self.report_value(key, "\"\" is no name".to_owned(), right),
                other if items.len() == 1 => {
                    let (found, line) = (type_of(other), value.line);
                    self.report(key, line, Fault::Type { found, right });
                }
                other => {
                    let wrong = format!("one of the list is {}", type_of(other));
                    self.report_value(key, wrong, right);
                }
            }
        }
        if items.is_empty() {
            self.report_value(key, "names no resource".to_owned(), right);
        }
        texts
    }

    /// Returns the whole number of a key.
    pub(super) fn whole(&self, key: &'static str, right: &'static str) -> Option<u64> {
        let value = self.get(key)?;
        let DeValue::Integer(number) = value.found else {
            self.report_type(&value, right);
            return None;
        };
        let whole = u64::from_str_radix(number.as_str(), number.radix()).ok();
        if whole.is_none() {
            self.report_value(key, format!("{number} is out of range"), right);
        }
        whole
    }

    /// Returns the number of a key.
    #[expect(clippy::cast_precision_loss, reason = "the nearest")]
    pub(super) fn float(&self, key: &'static str, right: &'static str) -> Option<f64> {
        let value = self.get(key)?;
        match value.found {
            DeValue::Integer(_) => self.whole(key, right).map(|it| it as f64),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => {
                self.report_type(&value, right);
                None
            }
        }
    }

    /// Returns the table of a key.
    pub(super) fn table(
        &self,
        value: &Value<'t>,
        at: &'static str,
        known: &'static [&'static str],
    ) -> Option<Self> {
        let DeValue::Table(table) = value.found else { return None };
        let Self { rule, lines, problems, .. } = *self;
        Some(Self { table, known, at, line: value.line, rule, lines, problems })
    }
}
