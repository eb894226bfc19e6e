//! Rules as Sentinel writes them.

mod authority;
#[cfg(feature = "fleet")]
mod cluster;
mod degrade;
mod fields;
mod flow;
mod param_flow;
mod system;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use leaparray::flow::shadow::Mode;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::condition::{Condition, Values};
use crate::limit::Limit;
use crate::limiter;
use crate::pattern::Pattern;
use crate::problem::{Fault, Problem, Problems};
use crate::quantity::Per;
use crate::rule::{KeySource, Rule, Traffic};
use crate::text::{Parsed, RuleSet};
use fields::{Fields, Text};

/// A kind of rules that [Sentinel](https://github.com/alibaba/Sentinel) has. Each is an array of
/// JSON of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SentinelKind {
    /// `FlowRule`: `flow`.
    Flow,
    /// `DegradeRule`: `degrade`.
    Degrade,
    /// `SystemRule`: `system`.
    System,
    /// `AuthorityRule`: `authority`.
    Authority,
    /// `ParamFlowRule`: `paramFlow`.
    ParamFlow,
}

impl SentinelKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Flow, Self::Degrade, Self::System, Self::Authority, Self::ParamFlow];

    /// Returns the name, as Sentinel's dashboard has it: such as `paramFlow`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Degrade => "degrade",
            Self::System => "system",
            Self::Authority => "authority",
            Self::ParamFlow => "paramFlow",
        }
    }
}

impl fmt::Display for SentinelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SentinelKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{text:?} is no kind of Sentinel's rules; write one of {names}")
        })
    }
}

/// Reads rules of one kind as [Sentinel](https://github.com/alibaba/Sentinel) writes them: an array
/// of JSON with the fields of its Java classes.
///
/// Each rule becomes one or several [`Rule`]s, which decide as Sentinel documents it. A rule that
/// cannot be kept is a [problem](Problems) that names the field; Sentinel would load the others and
/// write a warning. The [guide](https://docs.rs/leaparray/latest/leaparray/guide/sentinel/) has a
/// table of the fields, of what they become, and of the differences.
///
/// ```
/// use leaparray_rules::{Sentinel, SentinelKind};
///
/// let flow = Sentinel::new(SentinelKind::Flow);
/// let json = r#"[{"resource": "GET /orders", "limitApp": "default", "grade": 1, "count": 20}]"#;
/// let rules = flow.parse(json)?;
/// assert_eq!(
///     rules.rules().rules()[0].to_string(),
///     "[[rule]]\nname = \"flow GET /orders\"\neither = \"GET /orders\"\n\
///      limit = \"20 per second\"\nbuckets = 2\n",
/// );
/// let both = r#"[{"resource": "GET /orders", "count": 20, "controlBehavior": 3}]"#;
/// assert_eq!(
///     flow.parse(both).unwrap_err().in_source("flow.json").to_string(),
///     "flow.json:1: rule \"flow GET /orders\": controlBehavior: 3 is not kept: requests are not \
///      both spaced and warmed up; write 1 or 2",
/// );
/// # Ok::<_, leaparray_rules::Problems>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Sentinel {
    kind: SentinelKind,
    origin: KeySource,
    parameters: Vec<KeySource>,
    max_keys: usize,
}

impl Sentinel {
    /// Creates a reader of rules of a kind. The origin of a request is its key `extension:origin`,
    /// and its parameter with the index 0 is its key `extension:parameter-0`.
    pub fn new(kind: SentinelKind) -> Self {
        let origin = KeySource::Extension("origin".into());
        Self { kind, origin, parameters: Vec::new(), max_keys: Rule::DEFAULT_MAX_KEYS }
    }

    /// Sets the key of a request that is its origin: what a `RequestOriginParser` finds in
    /// Sentinel.
    ///
    /// ```
    /// use leaparray_rules::{KeySource, Sentinel, SentinelKind};
    ///
    /// let of_app = KeySource::Header("x-app".into());
    /// let authority = Sentinel::new(SentinelKind::Authority).origin(of_app.clone());
    /// let json = r#"[{"resource": "pay", "strategy": 1, "limitApp": "crawler"}]"#;
    /// assert_eq!(authority.parse(json)?.rules().rules()[0].only[0].source, of_app);
    /// # Ok::<_, leaparray_rules::Problems>(())
    /// ```
    pub fn origin(self, origin: KeySource) -> Self {
        Self { origin, ..self }
    }

    /// Sets the keys of a request that are its parameters, by their indices.
    pub fn parameters(self, parameters: impl IntoIterator<Item = KeySource>) -> Self {
        Self { parameters: parameters.into_iter().collect(), ..self }
    }

    /// Sets the greatest number of origins or parameters for which a rule stores a limit: by
    /// default 100,000, and at least 1.
    pub fn max_keys(self, max_keys: usize) -> Self {
        Self { max_keys: max_keys.max(1), ..self }
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> SentinelKind {
        self.kind
    }

    /// Reads an array of JSON.
    ///
    /// # Errors
    ///
    /// Returns all problems, if there is one.
    pub fn parse(&self, json: &str) -> Result<SentinelRules, Problems> {
        let values = values(json).map_err(Problems::of)?;
        let parsed = self.read(json).map_err(Problems::of)?;
        let rules = RuleSet::of(parsed.into_iter().map(|it| it.rule).collect());
        Ok(SentinelRules { kind: self.kind, json: values, rules })
    }

    /// Reads the rules with their lines.
    pub(crate) fn read(&self, json: &str) -> Result<Vec<Parsed>, Vec<Problem>> {
        // The texts may have what is no value, such as 1e999: it would be read as absent.
        values(json)?;
        let (text, problems) = (Text::new(json), RefCell::default());
        let texts: Vec<&RawValue> = serde_json::from_str(json).map_err(|it| vec![syntax(&it)])?;
        let all: Vec<_> =
            texts.into_iter().filter_map(|it| Fields::new(&text, it, &problems)).collect();
        let mut reading = Reading {
            sentinel: self,
            rules: Vec::new(),
            printed: HashSet::new(),
            names: HashMap::new(),
            named_origins: flow::named_origins(&all),
            authority_lines: HashMap::new(),
        };
        for fields in &all {
            match self.kind {
                SentinelKind::Flow => flow::read(&mut reading, fields),
                SentinelKind::Degrade => degrade::read(&mut reading, fields),
                SentinelKind::System => system::read(&mut reading, fields),
                SentinelKind::Authority => authority::read(&mut reading, fields),
                SentinelKind::ParamFlow => param_flow::read(&mut reading, fields),
            }
        }
        let rules = reading.rules;
        let mut problems = problems.into_inner();
        if problems.is_empty() {
            return Ok(rules);
        }
        problems.sort_by_key(|it| it.line);
        Err(problems)
    }

    /// Returns the key of a parameter.
    fn parameter(&self, index: usize) -> KeySource {
        let known = self.parameters.get(index).cloned();
        known.unwrap_or_else(|| KeySource::Extension(format!("parameter-{index}").into()))
    }

    /// Returns the condition that the origin is one of these.
    fn is_origin(&self, origins: impl IntoIterator<Item = Box<str>>) -> Condition {
        Condition::new(self.origin.clone(), origins.into_iter().collect())
    }

    /// Returns the condition that a request has an origin.
    fn has_origin(&self) -> Condition {
        Condition::new(self.origin.clone(), Values::Any)
    }
}

/// Reads an array of any values.
fn values(json: &str) -> Result<Vec<Value>, Vec<Problem>> {
    serde_json::from_str(json).map_err(|it| vec![syntax(&it)])
}

fn syntax(error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(&*message, |(it, _)| it).to_owned();
    let fault = Fault::Syntax { format: "JSON array", message };
    Problem::new(error.line().max(1), None, String::new(), fault)
}

/// Rules that were read from Sentinel's JSON, with the JSON. Plain data.
///
/// ```
/// use leaparray_rules::{Sentinel, SentinelKind};
///
/// let json = r#"[{"id":7,"resource":"pay","count":2.0,"gmtCreate":null,"note":"mine"}]"#;
/// let rules = Sentinel::new(SentinelKind::Flow).parse(json)?;
/// assert_eq!(rules.to_json(), r#"[{"count":2.0,"id":7,"note":"mine","resource":"pay"}]"#);
/// # Ok::<_, leaparray_rules::Problems>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SentinelRules {
    kind: SentinelKind,
    json: Vec<Value>,
    rules: RuleSet,
}

impl SentinelRules {
    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> SentinelKind {
        self.kind
    }

    /// Returns what the rules have become.
    #[must_use]
    pub const fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Returns the JSON with all fields that were read, also those that are not known, without
    /// those that are `null`. It is read as the same rules.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = Value::from(self.json.clone());
        remove_nulls(&mut json);
        json.to_string()
    }
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, it| !it.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(all) => all.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// The rules that were read so far.
struct Reading<'a> {
    sentinel: &'a Sentinel,
    rules: Vec<Parsed>,
    /// These as a file has them, before a number was added to their names.
    printed: HashSet<String>,
    /// Their names, each with the last number that was added to it.
    names: HashMap<Arc<str>, usize>,
    /// The origins that a `FlowRule` names, by its resource.
    named_origins: HashMap<String, Vec<Box<str>>>,
    /// The line of the first `AuthorityRule` of each resource.
    authority_lines: HashMap<String, usize>,
}

/// The requests that a rule concerns, and how they are counted.
#[derive(Clone)]
struct Target {
    traffic: Traffic,
    resource: Pattern,
    key: Option<KeySource>,
    only: Vec<Condition>,
    except: Vec<Condition>,
}

impl Target {
    const fn new(traffic: Traffic, resource: Pattern) -> Self {
        Self { traffic, resource, key: None, only: Vec::new(), except: Vec::new() }
    }
}

impl Reading<'_> {
    /// Adds a rule, with the field that has its limit. An equal one is not added again, as in
    /// Sentinel.
    fn add(&mut self, fields: &Fields<'_>, field: &str, name: &str, target: Target, limit: Limit) {
        if let Err(error) = limiter::check(&limit) {
            fields.report_fault(field, Fault::Limiter { error });
        }
        #[cfg(feature = "fleet")]
        if limit.is_over_fleet() && !crate::fleet::is_rule_name(name) {
            fields.report("resource", "is too long for a limit over the fleet", "a shorter name");
        }
        let Target { traffic, resource, key, only, except } = target;
        let mut rule = Rule {
            name: name.into(),
            traffic,
            resources: vec![resource],
            key,
            max_keys: self.sentinel.max_keys,
            only,
            except,
            priority: None,
            tenants: None,
            mode: Mode::Enforce,
            limit,
        };
        if !self.printed.insert(rule.to_string()) {
            return;
        }
        while self.names.contains_key(&rule.name) {
            let number = self.names.entry(name.into()).or_insert(1);
            *number += 1;
            rule.name = format!("{name} ({number})").into();
        }
        self.names.insert(Arc::clone(&rule.name), 1);
        self.rules.push(Parsed { line: fields.line(), rule });
    }
}

/// A limit that refuses all requests.
const NOTHING: Limit = Limit::Window {
    rate: Per { count: 0, interval: std::time::Duration::from_secs(1) },
    buckets: None,
};

/// Returns the percent of a ratio, as it is written: 7, and not 7.000000000000001.
fn percent(ratio: f64) -> f64 {
    (ratio * 1e11).round() / 1e9
}
