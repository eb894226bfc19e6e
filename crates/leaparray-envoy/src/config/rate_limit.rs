//! The limit of a descriptor.

use leaparray::flow::SlidingWindowLimiter;
use leaparray::{ManualClock, Timestamp};

use super::reader::{Entries, Reader, shown};
use super::yaml::{Node, Value};
use super::{RateLimit, Unit};

const RATE_LIMIT: &[&str] =
    &["unit", "requests_per_unit", "unlimited", "name", "replaces", "requests_per_quota"];

impl Reader<'_> {
    pub(super) fn rate_limit(&mut self, node: &Node) -> Option<RateLimit> {
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
    let clock = ManualClock::new(Timestamp::MIN);
    let probe = SlidingWindowLimiter::with_clock(unit.interval(), 0, clock);
    probe.map_or(u64::MAX, |it| SlidingWindowLimiter::max_limit(it.config()))
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
