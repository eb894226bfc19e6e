//! The descriptors of a document, and what is wrong with them.
//!
//! The format is that of `envoyproxy/ratelimit`: its `README.md`, and `loadDescriptors` and
//! `validateYamlKeys` in `src/config/config_impl.go`. What that server refuses is refused here. It
//! is stricter in three points, where a file would limit otherwise than it reads: a known key at a
//! place where it means nothing, a limit without `requests_per_unit`, which would be 0, and a key
//! twice in one mapping.

use std::collections::HashMap;
use std::sync::Arc;

use leaparray::flow::SlidingWindowLimiter;

use super::yaml::{Node, Value, documents};
use super::{DescriptorConfig, Domain, Metadata, Problem, RateLimit, Unit};

/// The most problems that are told of.
const MAX_PROBLEMS: usize = 100;

/// The longest name of which the nearest known one is told, in bytes.
const MAX_NAME_LEN: usize = 64;

/// The deepest tree.
const MAX_LEVELS: usize = 32;

const ROOT: &[&str] = &["domain", "descriptors"];

const DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

const RATE_LIMIT: &[&str] =
    &["unit", "requests_per_unit", "unlimited", "name", "replaces", "requests_per_quota"];

/// Reads the domains of a file, in which problems are noted.
pub(super) fn read(file: &str, text: &str, problems: &mut Vec<Problem>) -> Vec<(usize, Domain)> {
    let mut reader = Reader { file, domain: None, path: Vec::new(), problems };
    match documents(text) {
        Ok(documents) if documents.iter().all(Node::is_null) => {
            reader.problem(None, "the file is empty", "write `domain: NAME` and `descriptors:`");
            Vec::new()
        }
        Ok(documents) => documents
            .into_iter()
            .filter(|node| !node.is_null())
            .filter_map(|node| Some((node.line, reader.domain(&node)?)))
            .collect(),
        Err(fault) => {
            reader.problem(fault.line, fault.wrong, "");
            Vec::new()
        }
    }
}

struct Reader<'a> {
    file: &'a str,
    domain: Option<String>,
    /// The path to the node that is read.
    path: Vec<String>,
    problems: &'a mut Vec<Problem>,
}

type Entries<'n> = HashMap<&'n str, &'n Node>;

impl Reader<'_> {
    fn problem(&mut self, line: Option<usize>, wrong: impl Into<String>, right: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                file: self.file.to_owned(),
                line,
                domain: self.domain.clone(),
                path: self.path.join("."),
                wrong: wrong.into(),
                right: right.into(),
            });
        }
    }

    /// Notes a problem of a key.
    fn problem_of(
        &mut self,
        key: &str,
        node: &Node,
        wrong: impl Into<String>,
        right: impl Into<String>,
    ) {
        self.path.push(key.to_owned());
        self.problem(Some(node.line), wrong, right);
        self.path.pop();
    }

    /// Returns the entries of a mapping. A key that is unknown, or there twice, is a problem.
    fn entries<'n>(&mut self, node: &'n Node, known: &[&str], what: &str) -> Option<Entries<'n>> {
        let Value::Mapping(map) = &node.value else {
            let wrong = format!("{what} is a mapping, and this is {}", node.kind());
            self.problem(Some(node.line), wrong, format!("write keys such as `{}`", known[0]));
            return None;
        };
        let mut entries = Entries::new();
        for (key, value) in map {
            let Some(name) = key.text() else {
                let wrong = format!("a key is a text, and this is {}", key.kind());
                self.problem(Some(key.line), wrong, "");
                continue;
            };
            if self.problems.len() == MAX_PROBLEMS {
                break;
            }
            if !known.contains(&name) {
                let right = match nearest(name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the keys of {what} are {}", known.join(", ")),
                };
                self.problem_of(name, key, "unknown key", right);
            } else if entries.insert(name, value).is_some() {
                self.problem_of(name, key, "the key is there twice", "write it once");
            }
        }
        entries.retain(|_, node| !node.is_null());
        Some(entries)
    }

    fn text(&mut self, entries: &Entries<'_>, key: &str) -> Option<String> {
        let node = entries.get(key)?;
        if node.text().is_none() {
            self.problem_of(key, node, format!("this is {}", node.kind()), "write a text");
        }
        node.text().map(str::to_owned)
    }

    /// Returns a truth value, as YAML 1.1 writes it; `false` if the key is not there.
    fn bool(&mut self, entries: &Entries<'_>, key: &str) -> bool {
        let Some(node) = entries.get(key) else { return false };
        let value = match &node.value {
            Value::Scalar(text, true) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "y" => Some(true),
                "false" | "no" | "off" | "n" => Some(false),
                _ => None,
            },
            _ => None,
        };
        if value.is_none() {
            let wrong = format!("{} is no truth value", shown(node));
            self.problem_of(key, node, wrong, "write `true` or `false`");
        }
        value.unwrap_or(false)
    }

    fn list<'n>(&mut self, entries: &Entries<'n>, key: &str) -> &'n [Node] {
        match entries.get(key).map(|node| (node, &node.value)) {
            None => &[],
            Some((_, Value::Sequence(list))) => list,
            Some((node, _)) => {
                let wrong = format!("this is {}", node.kind());
                self.problem_of(key, node, wrong, "write a list, whose items begin with `-`");
                &[]
            }
        }
    }

    fn domain(&mut self, node: &Node) -> Option<Domain> {
        self.domain = None;
        // Known before the first problem.
        if let Value::Mapping(map) = &node.value {
            let named = map.iter().find(|(key, _)| key.text() == Some("domain"));
            self.domain = named.and_then(|(_, name)| Some(name.text()?.to_owned()));
        }
        let entries = self.entries(node, ROOT, "a file")?;
        let name = self.text(&entries, "domain").filter(|name| !name.is_empty());
        if name.is_none() {
            self.problem(Some(node.line), "the file has no domain", "write `domain: NAME`");
        }
        let descriptors = self.descriptors(&entries);
        Some(Domain { name: Arc::from(name?), descriptors })
    }

    fn descriptors(&mut self, entries: &Entries<'_>) -> Vec<DescriptorConfig> {
        let list = self.list(entries, "descriptors");
        if let Some(first) = list.first()
            && self.path.len() == MAX_LEVELS
        {
            let wrong = format!("descriptors are nested more than {MAX_LEVELS} levels deep");
            self.problem(Some(first.line), wrong, "");
            return Vec::new();
        }
        let mut seen: HashMap<(String, String), usize> = HashMap::new();
        let mut descriptors = Vec::with_capacity(list.len());
        for node in list {
            let Some(descriptor) = self.descriptor(node) else { continue };
            let name = (descriptor.key.clone(), descriptor.value.clone());
            if let Some(line) = seen.get(&name) {
                let wrong = format!("the key and the value are those of line {line}");
                self.path.push(entry_name(&descriptor.key, &descriptor.value));
                self.problem(Some(node.line), wrong, "write one of the two, or another value");
                self.path.pop();
                continue;
            }
            seen.insert(name, node.line);
            descriptors.push(descriptor);
        }
        descriptors
    }

    fn descriptor(&mut self, node: &Node) -> Option<DescriptorConfig> {
        let entries = self.entries(node, DESCRIPTOR, "a descriptor")?;
        let Some(key) = self.text(&entries, "key").filter(|key| !key.is_empty()) else {
            self.problem(Some(node.line), "the descriptor has no key", "write `key: NAME`");
            return None;
        };
        let value = self.text(&entries, "value").unwrap_or_default();
        self.path.push(entry_name(&key, &value));
        if value.is_empty() && key.ends_with('*') {
            let right = "write the `*` at the end of a value";
            self.problem_of("key", entries["key"], "a `*` stands for a text in values only", right);
        }
        let share_threshold = self.bool(&entries, "share_threshold");
        if share_threshold && !value.ends_with('*') {
            let wrong = "only values that end with `*` share a limit";
            let right = if value.is_empty() {
                "write a value such as `*`, or take `share_threshold` away".to_owned()
            } else {
                format!("write `value: {value}*`, or take `share_threshold` away")
            };
            self.problem_of("share_threshold", entries["share_threshold"], wrong, right);
        }
        let rate_limit = entries.get("rate_limit").and_then(|node| {
            self.path.push("rate_limit".to_owned());
            let limit = self.rate_limit(node);
            self.path.pop();
            limit
        });
        let shadow_mode = self.bool(&entries, "shadow_mode");
        if shadow_mode && rate_limit.as_ref().is_some_and(|it| it.requests_per_quota.is_some()) {
            let wrong = "a limit with `requests_per_quota` is in no shadow: its callers refuse";
            let right = "take `requests_per_quota` or `shadow_mode` away";
            self.problem_of("shadow_mode", entries["shadow_mode"], wrong, right);
        }
        let descriptor = DescriptorConfig {
            rate_limit,
            shadow_mode,
            quota_mode: self.bool(&entries, "quota_mode"),
            detailed_metric: self.bool(&entries, "detailed_metric"),
            value_to_metric: self.bool(&entries, "value_to_metric"),
            share_threshold,
            metadata: entries.get("metadata").map(|node| metadata(node)),
            descriptors: self.descriptors(&entries),
            key,
            value,
        };
        self.path.pop();
        Some(descriptor)
    }

    fn rate_limit(&mut self, node: &Node) -> Option<RateLimit> {
        let entries = self.entries(node, RATE_LIMIT, "a rate_limit")?;
        let name = self.text(&entries, "name").unwrap_or_default();
        let requests = self.requests(node, &entries);
        let mut replaces = Vec::new();
        for node in self.list(&entries, "replaces") {
            self.path.push("replaces".to_owned());
            if let Some(entries) = self.entries(node, &["name"], "an item of replaces") {
                match self.text(&entries, "name").filter(|name| !name.is_empty()) {
                    None => self.problem(
                        Some(node.line),
                        "the item has no name",
                        "write `- name: NAME`",
                    ),
                    Some(other) if other == name => self.problem(
                        Some(node.line),
                        "the limit replaces itself",
                        "name another limit",
                    ),
                    Some(other) => replaces.push(other),
                }
            }
            self.path.pop();
        }
        let requests_per_quota = self.requests_per_quota(&entries, requests);
        Some(RateLimit { requests, name, replaces, requests_per_quota })
    }

    /// Returns the requests of a quota, which are at least 2, and at most those of the limit.
    fn requests_per_quota(
        &mut self,
        entries: &Entries<'_>,
        limit: Option<(u32, Unit)>,
    ) -> Option<u32> {
        const KEY: &str = "requests_per_quota";
        let node = *entries.get(KEY)?;
        if self.bool(entries, "unlimited") {
            let right = "take `requests_per_quota` or `unlimited` away";
            self.problem_of(KEY, node, "an unlimited limit has no quotas", right);
            return None;
        }
        // Without a limit, there is a problem already.
        let (max, _) = limit?;
        let requests = match &node.value {
            Value::Scalar(text, true) => whole(text),
            _ => None,
        };
        let requests = requests.filter(|requests| (2..=max).contains(requests));
        if requests.is_none() {
            let wrong = format!("{} is no number of requests of a quota", shown(node));
            let right = if max < 2 {
                "take it away: a quota has at least 2 requests".to_owned()
            } else {
                format!("write a whole number from 2 to {max}")
            };
            self.problem_of(KEY, node, wrong, right);
        }
        requests
    }

    /// Returns the number of requests of a limit, and its unit; `None` if it is unlimited, or if
    /// there is a problem.
    fn requests(&mut self, node: &Node, entries: &Entries<'_>) -> Option<(u32, Unit)> {
        let unlimited = self.bool(entries, "unlimited");
        let names = Unit::ALL.map(Unit::name).join(", ");
        let unit = self.text(entries, "unit").and_then(|name| {
            let unit = Unit::parse(&name);
            if unit.is_none() && !name.is_empty() {
                let wrong = format!("{name:?} is no unit");
                self.problem_of("unit", entries["unit"], wrong, format!("the units are {names}"));
            }
            unit
        });
        if unlimited {
            if let (Some(node), Some(_)) = (entries.get("unit"), unit) {
                let right = "take `unit` or `unlimited` away";
                self.problem_of("unit", node, "an unlimited limit has no unit", right);
            }
            return None;
        }
        if unit.is_none() && !entries.contains_key("unit") {
            let right = format!("write `unit:` and one of {names}");
            self.problem(Some(node.line), "the limit has no unit", right);
        }
        let Some(number) = entries.get("requests_per_unit") else {
            let right = "write `requests_per_unit: NUMBER`, 0 to refuse all";
            self.problem(Some(node.line), "the limit has no number of requests", right);
            return None;
        };
        let requests = match &number.value {
            Value::Scalar(text, true) => whole(text),
            _ => None,
        };
        let Some(requests) = requests else {
            let wrong = format!("{} is no number of requests", shown(number));
            let right = format!("write a whole number from 0 to {}", u32::MAX);
            self.problem_of("requests_per_unit", number, wrong, right);
            return None;
        };
        let max = unit.map_or(u64::MAX, max_requests);
        if u64::from(requests) > max {
            let unit = unit.map_or("", Unit::name);
            let wrong = format!("{requests} requests in a {unit} are more than can be counted");
            let right = format!("write at most {max}, or `unlimited: true` in place of it");
            self.problem_of("requests_per_unit", number, wrong, right);
            return None;
        }
        Some((requests, unit?))
    }
}

/// Returns the highest number of requests in any interval of a unit.
fn max_requests(unit: Unit) -> u64 {
    let probe = SlidingWindowLimiter::new(unit.interval(), 0);
    probe.map_or(u64::MAX, |it| SlidingWindowLimiter::max_limit(it.config()))
}

/// Returns the name of an entry in paths and metrics: `key`, or `key_value`.
pub(crate) fn entry_name(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") }
}

/// Reads a number as YAML 1.1 writes it: decimal, possibly with underscores, or hexadecimal. A
/// number that begins with 0 is octal there and decimal in YAML 1.2, so it is none here.
fn whole(text: &str) -> Option<u32> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits: String = text.chars().filter(|it| *it != '_').collect();
    if digits.starts_with(['+', '-']) {
        return None;
    }
    match digits.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None if digits.len() > 1 && digits.starts_with('0') => None,
        None => digits.parse().ok(),
    }
}

/// Returns a value as a message shows it.
fn shown(node: &Node) -> String {
    node.text().map_or_else(|| node.kind().to_owned(), |text| format!("{text:?}"))
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // The distance takes memory in proportion to the length.
    if name.len() > MAX_NAME_LEN {
        return None;
    }
    let distance = |it: &&str| strsim::damerau_levenshtein(name, it);
    known
        .iter()
        .min_by_key(|it| distance(it))
        .filter(|it| distance(it) <= 1 + it.len() / 4)
        .copied()
}

fn metadata(node: &Node) -> Metadata {
    if node.is_null() {
        return Metadata::Null;
    }
    match &node.value {
        Value::Scalar(text, true) => match text.to_ascii_lowercase().as_str() {
            "true" => Metadata::Bool(true),
            "false" => Metadata::Bool(false),
            _ => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Metadata::Number(number),
                _ => Metadata::String(text.clone()),
            },
        },
        Value::Scalar(text, false) => Metadata::String(text.clone()),
        Value::Sequence(list) => Metadata::List(list.iter().map(metadata).collect()),
        Value::Mapping(map) => Metadata::Map(
            map.iter()
                .filter_map(|(key, value)| Some((key.text()?.to_owned(), metadata(value))))
                .collect(),
        ),
    }
}
