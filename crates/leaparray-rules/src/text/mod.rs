//! Rules as text: a file of TOML.

mod conditions;
mod fields;
mod fleet;
mod limiter;
mod priority;
mod tenants;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use leaparray::flow::shadow::Mode;
use leaparray::flow::shares::FairShares;
use leaparray::flow::{Keyed, TokenBucket};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::pattern::Pattern;
use crate::problem::{Fault, Problem, Problems};
use crate::rule::{KeySource, ModeText, Rule, Traffic, default_max_keys};
use fields::Fields;
pub(crate) use fields::Lines;

/// The keys of a rule.
const KEYS: &[&str] = &[
    "name",
    "resource",
    "outbound",
    "either",
    "key",
    "max_keys",
    "only",
    "except",
    "mode",
    "priority",
    "shares",
    "tenant",
    "weights",
    "limit",
    "over",
    "away",
    "buckets",
    "starts",
    "warm_up",
    "cold_factor",
    "pace",
    "max_wait",
    "in_flight",
    "breaker",
    "refuse",
];

/// Rules that were checked as a whole: their names differ, and each can be made. Plain data.
///
/// ```
/// use leaparray_rules::{Limit, RuleSet};
///
/// let rules = RuleSet::parse(
///     r#"
///     [[rule]]
///     name = "orders"
///     resource = "GET /orders"
///     limit = "1000 per second"
///     "#,
/// )?;
/// let [orders] = rules.rules() else { panic!("there is one") };
/// assert_eq!((&*orders.name, orders.resources[0].as_str()), ("orders", "GET /orders"));
/// assert!(matches!(orders.limit, Limit::Window { buckets: None, .. }));
/// # Ok::<_, leaparray_rules::Problems>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSet {
    rules: Vec<Rule>,
}

impl RuleSet {
    /// A JSON schema of the files of rules, of draft 7, for editors. The program prints it:
    /// `leaparray-rules schema`.
    ///
    /// ```
    /// assert!(leaparray_rules::RuleSet::SCHEMA.contains("\"in_flight\""));
    /// ```
    pub const SCHEMA: &str = include_str!("schema.json");

    /// Reads rules: a file of TOML with a table `[[rule]]` for each. See the [crate](crate) for
    /// what a rule can say.
    ///
    /// # Errors
    ///
    /// Returns all problems of the text, if it has any. A text that says nothing has one: a file
    /// without rules says `rule = []`.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        let rules = read(text).map_err(Problems::of)?;
        Ok(Self::of(rules.into_iter().map(|it| it.rule).collect()))
    }

    /// Creates a set of rules that were checked.
    pub(crate) const fn of(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// Returns the rules, in the order of the text.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the same rules, each in this mode: for example `Mode::Off`, with which none is
    /// asked, and all keep their state.
    ///
    /// ```
    /// use leaparray::flow::shadow::Mode;
    /// use leaparray_rules::RuleSet;
    ///
    /// let text = "[[rule]]\nname = \"all\"\nresource = \"*\"\nin_flight = 64";
    /// let off = RuleSet::parse(text)?.in_mode(Mode::Off);
    /// assert_eq!(off.rules()[0].mode, Mode::Off);
    /// # Ok::<_, leaparray_rules::Problems>(())
    /// ```
    #[must_use]
    pub fn in_mode(mut self, mode: Mode) -> Self {
        self.rules.iter_mut().for_each(|rule| rule.mode = mode);
        self
    }
}

/// A rule, and the line on which it begins.
pub(crate) struct Parsed {
    pub(crate) line: usize,
    pub(crate) rule: Rule,
}

/// Reads the rules of a file, or all that is wrong with it.
pub(crate) fn read(text: &str) -> Result<Vec<Parsed>, Vec<Problem>> {
    let lines = Lines::new(text);
    let (file, errors) = DeTable::parse_recoverable(text);
    let problems = RefCell::new(Vec::new());
    for error in errors {
        let line = error.span().map_or(1, |it| lines.of(it.start));
        let found = error.span().and_then(|it| text.get(it)).unwrap_or_default();
        let message = match error.message() {
            // The parser does not say which one.
            "duplicate key" => format!("`{found}` is in its table twice; remove one of them"),
            message => message.to_owned(),
        };
        let fault = Fault::Syntax { format: "TOML", message };
        problems.borrow_mut().push(Problem::new(line, None, String::new(), fault));
    }
    let rules = if problems.borrow().is_empty() {
        read_file(file.get_ref(), &lines, &problems)
    } else {
        Vec::new()
    };
    let mut problems = problems.into_inner();
    if problems.is_empty() {
        return Ok(rules);
    }
    problems.sort_by_key(|it| it.line);
    Err(problems)
}

fn read_file(file: &DeTable<'_>, lines: &Lines, problems: &RefCell<Vec<Problem>>) -> Vec<Parsed> {
    let top =
        Fields { table: file, known: &["rule"], at: "", line: 1, rule: None, lines, problems };
    top.report_unknown();
    let Some(rules) = top.get("rule") else {
        top.report_missing("rules, of which `rule = []` says that there are none", &["[[rule]]"]);
        return Vec::new();
    };
    let DeValue::Array(tables) = rules.found else {
        top.report_type(&rules, "a table `[[rule]]` for each rule");
        return Vec::new();
    };
    let mut first_lines = HashMap::new();
    let read = |table: &Spanned<DeValue<'_>>| {
        let line = lines.of(table.span().start);
        let DeValue::Table(fields) = table.get_ref() else {
            top.report_type(
                &fields::Value { key: "rule", line, found: table.get_ref() },
                "a table",
            );
            return None;
        };
        let rule = fields.get("name").and_then(|it| it.get_ref().as_str());
        let fields = Fields { table: fields, known: KEYS, at: "", line, rule, lines, problems };
        if let Some(line) = rule.and_then(|name| first_lines.insert(name.to_owned(), line)) {
            fields.report("name", fields.line_of("name"), Fault::Duplicate { line });
        }
        Some(Parsed { line, rule: read_rule(&fields)? })
    };
    tables.iter().filter_map(read).collect()
}

/// Reads a rule. `None` if it has a problem, which is then reported.
fn read_rule(fields: &Fields<'_>) -> Option<Rule> {
    let before = fields.problems.borrow().len();
    fields.report_unknown();
    let name = name(fields);
    let (traffic, resources) = resources(fields);
    let key = fields.parsed("key", KeySource::RIGHT, str::parse);
    let max_keys = max_keys(fields);
    let (only, except) = (conditions::read(fields, "only"), conditions::read(fields, "except"));
    let mode = fields.parsed("mode", ModeText::RIGHT, str::parse).map(|ModeText(mode)| mode);
    if matches!(mode, Some(Mode::Keys(_))) && !fields.has("key") {
        fields.report("mode", fields.line_of("mode"), Fault::Needs { other: "key" });
    }
    let limit = limiter::read(fields);
    let (priority, tenants) = (priority::read(fields), tenants::read(fields));
    if fields.problems.borrow().len() > before {
        return None;
    }
    Some(Rule {
        name: Arc::from(name?),
        traffic,
        resources,
        key,
        max_keys: max_keys.unwrap_or(default_max_keys(fields.has("tenant"))),
        only,
        except,
        priority: priority.map(Box::new),
        tenants: tenants.map(Box::new),
        mode: mode.unwrap_or(Mode::Enforce),
        limit: limit?,
    })
}

fn name<'t>(fields: &Fields<'t>) -> Option<&'t str> {
    if !fields.has("name") {
        fields.report_missing("a name", &["name"]);
    }
    fields.parsed("name", "a name, which refusals and metrics show", |name| {
        let is_name = !name.trim().is_empty() && is_one_line(name);
        is_name.then_some(name).ok_or_else(|| format!("{name:?} is no name"))
    })
}

/// Returns whether a text is good in a name, which is shown in one line.
pub(crate) fn is_one_line(text: &str) -> bool {
    !text.contains(|it: char| it.is_control() || matches!(it, '\u{2028}' | '\u{2029}'))
}

/// Reads the resources and the direction of their requests.
fn resources(fields: &Fields<'_>) -> (Traffic, Vec<Pattern>) {
    let right = "a name such as \"GET /orders\", a pattern such as \"/api/*\", or a list of them";
    let mut found = Traffic::KEYS.into_iter().filter(|(key, _)| fields.has(key));
    let Some((key, traffic)) = found.next() else {
        fields.report_missing("a resource", &["resource", "outbound", "either"]);
        return (Traffic::Inbound, Vec::new());
    };
    for (second, _) in found {
        fields.report(second, fields.line_of(second), Fault::Beside { other: key });
    }
    let patterns = fields.texts(key, right).into_iter().map(Pattern::new).collect();
    (traffic, patterns)
}

fn max_keys(fields: &Fields<'_>) -> Option<usize> {
    let (max, right) = if fields.has("tenant") && !fields.has("key") {
        (FairShares::<()>::MAX_TENANTS, "a number of tenants from 1 to 16777216")
    } else {
        (Keyed::<String, TokenBucket>::MAX_KEYS, "a number of keys from 1 to 1073741824")
    };
    let number = fields.whole("max_keys", right)?;
    if !fields.has("key") && !fields.has("tenant") {
        fields.report("max_keys", fields.line_of("max_keys"), Fault::Needs { other: "key" });
    }
    let number = usize::try_from(number).ok().filter(|it| (1..=max).contains(it));
    if number.is_none() {
        let wrong = "is out of range".to_owned();
        fields.report("max_keys", fields.line_of("max_keys"), Fault::Value { wrong, right });
    }
    number
}
