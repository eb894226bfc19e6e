//! The bounds of what is admitted around changes, from the admitted requests and the files alone.

use std::collections::BTreeMap;

use super::file::{Limit, Mode, Rule};
use super::history::Request;

/// The admitted permits, by rules.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// The files, with the times from which they are in force.
    files: Vec<(u64, Vec<Rule>)>,
    /// The permits that each rule has admitted as a window of all requests, with their times.
    passed: BTreeMap<u8, Vec<(u64, u64)>>,
    /// The permits that each rule has given as a limit in flight of all requests, by the numbers of
    /// the requests, with their times.
    in_flight: BTreeMap<(u8, usize), (u64, u64)>,
}

/// The time after which a rule that is gone begins without a state.
const KEEP: u64 = 3_600_000;

/// Returns the limit and the interval of a window of all requests.
const fn window(rule: &Rule) -> Option<(u64, u64)> {
    match rule.limit {
        Limit::Window { count, interval, buckets: None } if rule.key.is_none() => {
            Some((count, interval))
        }
        _ => None,
    }
}

/// Returns a limit in flight of all requests, whatever their class and tenant.
const fn in_flight(rule: &Rule) -> Option<u64> {
    let is_whole = rule.key.is_none() && rule.shares.is_none() && rule.weights.is_none();
    match rule.limit {
        Limit::InFlight { limit } if is_whole => Some(limit),
        _ => None,
    }
}

impl Bounds {
    pub(super) fn apply(&mut self, file: &[Rule], now: u64) {
        self.files.push((now, file.to_vec()));
    }

    pub(super) fn end(&mut self, number: usize) {
        self.in_flight.retain(|(_, held), _| *held != number);
    }

    /// Returns the files that were in force after a time.
    fn files_since(&self, since: u64) -> impl Iterator<Item = &[Rule]> {
        let ends = self.files.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        let in_force = self.files.iter().zip(ends).filter(move |(_, end)| *end >= since);
        in_force.map(|((_, file), _)| &file[..])
    }

    /// Returns the versions of a rule that were in force after a time.
    fn versions(&self, name: u8, since: u64) -> impl Iterator<Item = &Rule> {
        self.files_since(since).flatten().filter(move |it| it.name == name)
    }

    /// Counts a request that was admitted, at the rules that concern it in the newest file and in
    /// the one before, if it came `beside` the change. Returns what is over its bound.
    pub(super) fn admit(
        &mut self,
        request: &Request,
        number: usize,
        beside: bool,
        now: u64,
    ) -> Option<String> {
        let (_, file) = self.files.last()?;
        let concerns =
            |it: &Rule| it.mode == Mode::Enforce && it.resources & 1 << request.resource != 0;
        let before = self.files.iter().rev().nth(1).filter(|_| beside);
        let concerned: Vec<_> = file
            .iter()
            .filter(|it| concerns(it))
            .filter(|it| before.is_none_or(|(_, before)| before.contains(it)))
            .copied()
            .collect();
        for rule in &concerned {
            if window(rule).is_some() {
                self.passed.entry(rule.name).or_default().push((now, request.permits));
            }
            if in_flight(rule).is_some() {
                self.in_flight.insert((rule.name, number), (now, request.permits));
            }
        }
        concerned.iter().find_map(|it| self.over(it, now))
    }

    /// Returns by how much a rule has admitted more than the largest of the limits that it had.
    fn over(&self, rule: &Rule, now: u64) -> Option<String> {
        if let Some((_, interval)) = window(rule) {
            let since = now.saturating_sub(interval) + 1;
            let limits: Vec<_> = self.versions(rule.name, since).filter_map(window).collect();
            // A shorter interval has its limit several times. A rule that was no window in
            // between begins anew, unless it has the same interval again.
            let is_same = limits.iter().all(|(_, of)| *of == interval);
            let is_window = self
                .files_since(since)
                .all(|file| file.iter().any(|it| it.name == rule.name && window(it).is_some()));
            if is_same || is_window && limits.iter().all(|(_, of)| *of >= interval) {
                let passed = self.passed[&rule.name].iter().filter(|(at, _)| *at >= since);
                let (passed, most) = (
                    passed.map(|(_, permits)| permits).sum::<u64>(),
                    limits.iter().map(|(limit, _)| *limit).max()?,
                );
                return (passed > most).then(|| format!("{passed} of {most} in {interval} ms"));
            }
        }
        if in_flight(rule).is_some() {
            let of_rule = self.in_flight.iter().filter(|((name, _), _)| *name == rule.name);
            let held: Vec<_> = of_rule.map(|(_, of)| *of).collect();
            let first = held.iter().map(|(at, _)| *at).min()?;
            // A rule that was gone for long may have begun anew since then.
            if now - first < KEEP {
                let most = self.versions(rule.name, first).filter_map(in_flight).max()?;
                let held: u64 = held.iter().map(|(_, permits)| permits).sum();
                return (held > most).then(|| format!("{held} of {most} in flight"));
            }
        }
        None
    }
}
