//! The fields of a rule with their lines, and what is wrong with them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::limit::Limit;
use crate::pattern::Pattern;
use crate::problem::{Fault, Problem};
use crate::quantity::Per;
use crate::text::{Lines, is_one_line};

/// The text of all rules.
pub(super) struct Text<'t> {
    json: &'t str,
    lines: Lines,
}

impl<'t> Text<'t> {
    pub(super) fn new(json: &'t str) -> Self {
        Self { json, lines: Lines::new(json) }
    }
}

/// A rule as JSON. Sentinel reads numbers and booleans also from strings, and takes `null` for the
/// absence of a field.
pub(super) struct Fields<'t> {
    json: &'t Text<'t>,
    line: usize,
    values: BTreeMap<String, &'t RawValue>,
    /// The fields that lead to it, such as `clusterConfig.`.
    at: &'static str,
    /// The name of the rule for messages.
    name: RefCell<Option<String>>,
    problems: &'t RefCell<Vec<Problem>>,
}

impl<'t> Fields<'t> {
    /// Reads the fields of a rule. `None` if it is none, which is then reported.
    pub(super) fn new(
        json: &'t Text<'t>,
        rule: &'t RawValue,
        problems: &'t RefCell<Vec<Problem>>,
    ) -> Option<Self> {
        let line = line_of(json, rule.get());
        let values = serde_json::from_str(rule.get());
        let Ok(values) = values else {
            let wrong = format!("{} is no rule", shortened(rule.get()));
            let fault = Fault::Value { wrong, right: "an object for each rule" };
            problems.borrow_mut().push(Problem::new(line, None, String::new(), fault));
            return None;
        };
        Some(Self { json, line, values, at: "", name: RefCell::default(), problems })
    }

    /// Returns the fields of an object in a field. `at` leads to it in messages.
    #[cfg(feature = "fleet")]
    pub(super) fn nested(&self, key: &str, at: &'static str) -> Option<Self> {
        let raw = self.raw(key)?;
        let Ok(values) = serde_json::from_str(raw.get()) else {
            self.report_value(key, "object", "an object");
            return None;
        };
        let Self { json, name, problems, .. } = self;
        Some(Self {
            json,
            line: line_of(json, raw.get()),
            values,
            at,
            name: name.clone(),
            problems,
        })
    }

    pub(super) const fn line(&self) -> usize {
        self.line
    }

    /// Sets the name of the rule for messages.
    pub(super) fn name(&self, name: &str) {
        *self.name.borrow_mut() = Some(name.to_owned());
    }

    pub(super) fn raw(&self, key: &str) -> Option<&'t RawValue> {
        self.values.get(key).copied().filter(|it| it.get() != "null")
    }

    fn value(&self, key: &str) -> Option<Value> {
        serde_json::from_str(self.raw(key)?.get()).ok()
    }

    pub(super) fn report_fault(&self, key: &str, fault: Fault) {
        // A field of an item of a list has the line of the list.
        let field = key.split(['.', '[']).next().unwrap_or_default();
        let line = self.raw(field).map_or(self.line, |it| line_of(self.json, it.get()));
        let name = self.name.borrow().clone();
        let key = format!("{}{key}", self.at);
        self.problems.borrow_mut().push(Problem::new(line, name, key, fault));
    }

    pub(super) fn report(&self, key: &str, wrong: impl Into<String>, right: &'static str) {
        self.report_fault(key, Fault::Value { wrong: wrong.into(), right });
    }

    /// Reports the value of a field, with the reason for which it is not kept.
    pub(super) fn report_not_kept(&self, key: &str, reason: &str, right: &'static str) {
        let value = self.raw(key).map_or("its absence", |it| it.get());
        self.report(key, format!("{} is not kept: {reason}", shortened(value)), right);
    }

    fn report_value(&self, key: &str, what: &str, right: &'static str) {
        let value = self.raw(key).map_or("null", |it| it.get());
        self.report(key, format!("{} is no {what}", shortened(value)), right);
    }

    /// Returns the text of a field, if it has one. Reports nothing.
    pub(super) fn known(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
        .filter(|it| !it.trim().is_empty())
    }

    /// Returns the text of a field that is not blank.
    pub(super) fn filled(&self, key: &str) -> Option<String> {
        if let Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) = self.value(key) {
            self.report_value(key, "text", "a text");
        }
        self.known(key)
    }

    /// Returns the text of a field that is not blank, if it is good in a file and in the name of a
    /// rule. Any other is reported.
    pub(super) fn label(&self, key: &str) -> Option<String> {
        let text = self.filled(key)?;
        if is_one_line(&text) && text.trim() == text {
            return Some(text);
        }
        self.report_value(key, "name", "a name without line breaks, or spaces at its ends");
        None
    }

    /// Returns the number of a field; the default if it is absent or wrong, which is then reported.
    pub(super) fn number(&self, key: &str, default: f64) -> f64 {
        let number = match self.value(key) {
            None => return default,
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        number.filter(|it: &f64| it.is_finite()).unwrap_or_else(|| {
            self.report_value(key, "number", "a number");
            default
        })
    }

    /// Returns the number of a field that is not below 0.
    pub(super) fn not_negative(&self, key: &str, default: f64) -> f64 {
        let number = self.number(key, default);
        if number < 0.0 {
            self.report_value(key, "limit", "a number from 0 on");
            return default;
        }
        number
    }

    /// Returns the whole number of a field, from 0 on.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in the range")]
    pub(super) fn whole(&self, key: &str, default: u32, right: &'static str) -> u32 {
        let number = self.number(key, default.into());
        if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
            return number as u32;
        }
        self.report_value(key, "whole number from 0 on", right);
        default
    }

    /// Like [`whole`](Self::whole), from 1 on.
    pub(super) fn positive(&self, key: &str, default: u32, right: &'static str) -> u32 {
        let number = self.whole(key, default, right);
        if number == 0 {
            self.report_value(key, "number from 1 on", right);
            return default.max(1);
        }
        number
    }

    /// Returns the limit of a field, which each rule has: the whole requests of it. Sentinel admits
    /// a request if the count with it is not above the limit, so the fraction makes no difference.
    pub(super) fn limit(&self) -> f64 {
        if self.raw("count").is_none() {
            self.report_fault("", Fault::Missing { what: "a limit", one_of: &["count"] });
        }
        self.not_negative("count", 0.0)
    }

    pub(super) fn is_set(&self, key: &str) -> bool {
        match self.value(key) {
            None | Some(Value::Bool(false)) => false,
            Some(Value::Bool(true)) => true,
            Some(Value::String(text)) if text.trim().eq_ignore_ascii_case("true") => true,
            // A blank text is an absent field.
            Some(Value::String(text))
                if text.trim().eq_ignore_ascii_case("false") || text.trim().is_empty() =>
            {
                false
            }
            Some(_) => {
                self.report_value(key, "boolean", "true or false");
                false
            }
        }
    }

    /// Reports that a rule is for a cluster, if it is.
    pub(super) fn refuse_cluster(&self) {
        if self.is_set("clusterMode") {
            let reason = "a limit over a cluster is none of one process";
            self.report_not_kept("clusterMode", reason, "false");
        }
    }

    /// Returns the objects of a list.
    pub(super) fn objects(&self, key: &str) -> Vec<serde_json::Map<String, Value>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let objects = match value {
            Value::Array(all) => all
                .into_iter()
                .map(|it| if let Value::Object(fields) = it { Some(fields) } else { None })
                .collect(),
            _ => None,
        };
        objects.unwrap_or_else(|| {
            self.report_value(key, "array of objects", "an array of objects");
            Vec::new()
        })
    }

    /// Returns the resource, and whether it is a pattern of several. `None` if there is none, or
    /// one that cannot be kept, which is then reported.
    pub(super) fn resource(&self, kind: &str) -> Option<(Pattern, bool)> {
        if self.known("resource").is_none() {
            self.report_fault("", Fault::Missing { what: "a resource", one_of: &["resource"] });
        }
        let text = self.label("resource")?;
        self.name(&format!("{kind} {text}"));
        if self.is_set("regex") {
            let pattern = glob(&text);
            if pattern.is_none() {
                self.report_not_kept(
                    "resource",
                    "of a regular expression, only `.*` and escaped characters are kept",
                    "a text with `.*` as its only operator, or a rule for each name",
                );
            }
            return pattern.map(|it| (it, true));
        }
        let pattern = Pattern::new(&text);
        if !pattern.is_name() {
            self.report_not_kept("resource", "`*` is a wildcard here", "a name without it");
            return None;
        }
        Some((pattern, false))
    }
}

/// Returns the pattern of a regular expression that has no operator but `.*`.
fn glob(regex: &str) -> Option<Pattern> {
    let (mut text, mut rest) = (String::new(), regex.chars());
    while let Some(it) = rest.next() {
        match it {
            '.' => {
                if rest.next() != Some('*') {
                    return None;
                }
                text.push('*');
            }
            '\\' => text.push(rest.next().filter(|it| it.is_ascii_punctuation() && *it != '*')?),
            '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => return None,
            it => text.push(it),
        }
    }
    // After `{`, a `*` is no wildcard.
    let has_wildcard = !text.contains("{*");
    has_wildcard.then(|| Pattern::new(&text))
}

/// Returns a value for a message: the first characters of it.
fn shortened(value: &str) -> String {
    let mut short: String = value.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = short.char_indices().nth(60) {
        short.truncate(end);
        short.push('…');
    }
    short
}

/// Returns the line of a part of a text, from 1.
fn line_of(text: &Text<'_>, part: &str) -> usize {
    // The part borrows from the text, so their addresses tell its place.
    let at = (part.as_ptr() as usize).saturating_sub(text.json.as_ptr() as usize);
    text.lines.of(at)
}

/// Returns the whole number of requests of a limit that is not negative.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
pub(super) fn floor(count: f64) -> u64 {
    count.floor() as u64
}

/// Returns the limit for requests that are evenly spaced. A limit such as 0.5 per second has a
/// longer interval.
pub(super) fn pace(count: f64, interval: Duration, max_wait: Duration) -> Limit {
    let scale = [1_u32, 10, 100, 1_000, 1_000_000]
        .into_iter()
        .find(|it| (count * f64::from(*it)).fract() == 0.0)
        .unwrap_or(1_000_000);
    let (count, interval) = (floor((count * f64::from(scale)).round()), interval * scale);
    if count == 0 {
        return super::NOTHING;
    }
    Limit::Pace { rate: Per { count, interval }, max_wait }
}
