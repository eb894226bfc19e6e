//! Changes of rules.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use leaparray::Registry;
use leaparray_rules::{RuleSet, Rules};
use sentinel_core::flow::{self, Rule};

use super::{RESOURCES, case, name};
use crate::goals::Row;
use crate::harness::Suite;
use crate::scenarios::crowd::Crowd;

const LOAD: &str = "`load_rules` of `sentinel-core` changes each rule";
const APPLY: &str = "`Rules::apply` changes each rule";
const READ: &str = "`RuleSet::parse` reads and checks the rules";

/// A limit that no request reaches.
pub(super) const MANY: u64 = 50_000_000;

/// Another one.
const MORE: u64 = MANY + 10_000_000;

/// The highest time of a load of 10,000 rules, in nanoseconds.
const LOAD_GOAL: f64 = 1e8;

pub(super) fn rows() -> Vec<Row> {
    let rows = RESOURCES.map(|resources| {
        let [load, apply, read] = [LOAD, APPLY, READ].map(|it| case(it, resources));
        let goal = |it: &String| Row::new(it, Crowd::of(1), crate::goals::Unit::Nanos, LOAD_GOAL);
        [Row::baseline(&load, 1), goal(&apply), Row::ratio(&apply, 1, load, 1.0), goal(&read)]
    });
    rows.concat()
}

/// Adds the changes of a rule for each of some resources.
pub(super) fn add(suite: &mut Suite, resources: usize) {
    let versions = [MANY, MORE].map(|limit| sentinel(resources, limit));
    timed(suite, LOAD, resources, move |version| load(&versions[version % 2]));
    let versions = [MANY, MORE].map(|limit| text(resources, limit));
    let sets = versions.clone().map(|it| RuleSet::parse(&it).expect("good rules"));
    let rules = Rules::new(Arc::new(Registry::new()));
    rules.apply(&sets[1]);
    timed(suite, APPLY, resources, move |version| {
        let changes = rules.apply(&sets[version % 2]);
        assert_eq!(changes.changed.len(), resources, "each rule changes");
    });
    timed(suite, READ, resources, move |version| {
        black_box(RuleSet::parse(&versions[version % 2]).expect("good rules"));
    });
}

/// Adds a case that takes some milliseconds: each sample is one operation, or some of them.
fn timed(suite: &mut Suite, what: &str, resources: usize, run: impl Fn(usize) + 'static) {
    let (times, version) = (1_000 / resources.min(1_000), AtomicUsize::new(0));
    suite.add_run(&case(what, resources), Crowd::of(1), 1, move |_, _| {
        let start = Instant::now();
        for _ in 0..times {
            run(version.fetch_add(1, Ordering::Relaxed));
        }
        Some(start.elapsed().as_nanos() as f64 / times as f64)
    });
}

/// Returns flow rules as a file has them.
pub(super) fn text(resources: usize, limit: u64) -> String {
    text_of(resources, &format!("limit = \"{limit} per second\"\nbuckets = 2"))
}

/// Returns the same rule for each of some resources, as a file has them.
pub(super) fn text_of(resources: usize, limiter: &str) -> String {
    let mut text = String::new();
    for name in (0..resources).map(name) {
        let names = format!("[[rule]]\nname = \"{name}\"\nresource = \"{name}\"");
        writeln!(text, "{names}\n{limiter}").expect("a string has room");
    }
    text
}

/// Returns rules of `sentinel-core`.
pub(super) fn sentinel(resources: usize, limit: u64) -> Vec<Arc<Rule>> {
    let rule = |resource: String| {
        Arc::new(Rule {
            id: resource.clone(),
            resource,
            threshold: limit as f64,
            ..Rule::default()
        })
    };
    (0..resources).map(name).map(rule).collect()
}

/// Has `sentinel-core` decide by these rules, and no others.
pub(super) fn load(rules: &[Arc<Rule>]) {
    assert!(flow::load_rules(rules.to_vec()), "they are other rules than before");
}
