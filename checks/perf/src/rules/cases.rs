//! Requests that rules decide.

use std::sync::Arc;

use arc_swap::ArcSwap;
use leaparray::flow::{Ask, LimiterExt, Named, Rate, TokenBucket};
use leaparray::{Clock, MonotonicClock, Outcome, Registry, Resource};
use leaparray_rules::{RuleSet, Rules};
use sentinel_core::EntryBuilder;
use sentinel_core::base::TrafficType;

use super::floor::Floor;
use super::{RESOURCES, case, changes, name};
use crate::goals::Row;
use crate::harness::Suite;

const SENTINEL: &str = "`sentinel-core`: a request";
const REQUEST: &str = "rules: a request";
const HELD: &str = "rules: a request of a resource that the caller has";
const HELD_BY_HAND: &str = "by hand: a request of a resource that the caller has";
const ASK: &str = "rules: a decision";
const ASK_BY_HAND: &str = "by hand: a decision";
const ASK_REPLACEABLE: &str = "by hand, replaceable: a decision";

const ASK_LEAST: &str = "by hand, the least that can be replaced: a decision";

const THREADS: [usize; 2] = [1, 2];

/// The tokens of a bucket, and of a second: more than are taken.
const BURST: u64 = 1_000_000_000;

/// The goal of a decision, as a multiple of that by hand.
const BY_HAND: f64 = 1.15;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for resources in RESOURCES {
        for threads in THREADS {
            for (ours, other, at_most) in [
                (REQUEST, SENTINEL, Some(1.0)),
                (HELD, HELD_BY_HAND, Some(BY_HAND)),
                (ASK, ASK_BY_HAND, Some(BY_HAND)),
                (ASK, ASK_REPLACEABLE, None),
                (ASK, ASK_LEAST, None),
            ] {
                let [ours, other] = [ours, other].map(|it| case(it, resources));
                rows.push(Row::baseline(&other, threads));
                rows.push(Row::ratio(ours, threads, other, at_most));
            }
        }
    }
    rows
}

/// Adds the cases with a rule for each of some resources. `sentinel-core` then has these rules, and
/// no others.
pub(super) fn add(suite: &mut Suite, resources: usize, cores: usize) {
    changes::load(&changes::sentinel(resources, changes::MANY));
    let (names, subject) = (Arc::new(names(resources)), Arc::new(Subject::new(resources)));
    for threads in THREADS.into_iter().filter(|&threads| threads <= cores) {
        let add = |suite: &mut Suite, what: &str, run: fn(&Names, &Subject, usize)| {
            let (names, subject) = (Arc::clone(&names), Arc::clone(&subject));
            // A case with a wrong setup ends the program before the run.
            run(&names, &subject, 0);
            suite.add_bound(&case(what, resources), threads, move |thread, number| {
                run(&names, &subject, place(thread, number, resources));
            });
        };
        add(suite, SENTINEL, |names, _, place| {
            let request = EntryBuilder::new(names[place].clone());
            let entry = request.with_traffic_type(TrafficType::Inbound).build();
            entry.expect("no request reaches the limit").exit();
        });
        add(suite, REQUEST, |names, subject, place| {
            subject.flow.try_enter(&names[place], ()).expect("plenty").success();
        });
        add(suite, HELD, |_, Subject { rules, clock, resources, .. }, place| {
            let entry = rules.try_enter_at(resources[place].clone(), &(), clock.now());
            entry.expect("plenty").end_at(clock.now(), Outcome::Success);
        });
        add(suite, HELD_BY_HAND, |_, Subject { clock, resources, limiters, .. }, place| {
            let ask = Ask::at(clock.now());
            let entry = limiters[place].try_enter_at(resources[place].clone(), ask);
            entry.expect("plenty").end_at(clock.now(), Outcome::Success);
        });
        add(suite, ASK, |_, Subject { rules, clock, resources, .. }, place| {
            assert!(rules.ask(&resources[place], &(), &Ask::at(clock.now())).is_admitted());
        });
        add(suite, ASK_BY_HAND, |_, Subject { clock, limiters, .. }, place| {
            assert!(limiters[place].ask(&Ask::at(clock.now())).is_admitted());
        });
        add(suite, ASK_REPLACEABLE, |_, Subject { clock, replaceable, .. }, place| {
            let limiter = replaceable[place].load();
            assert!(limiter.ask(&Ask::at(clock.now())).is_admitted());
        });
        add(suite, ASK_LEAST, |_, Subject { clock, least, .. }, place| {
            assert!(least.admits(place, &Ask::at(clock.now())));
        });
    }
}

/// Returns the place of a resource. The order looks random, so no processor fetches the next one in
/// advance.
fn place(thread: usize, number: u64, resources: usize) -> usize {
    // The factor of Fibonacci hashing: 2⁶⁴ / φ.
    let hash = (number << 1 | thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 32) as usize % resources
}

type Names = Vec<String>;

fn names(resources: usize) -> Names {
    (0..resources).map(name).collect()
}

struct Subject {
    /// The rules that are compared with those of `sentinel-core`.
    flow: Rules,
    /// The rules that are compared with the limiters by hand.
    rules: Rules,
    clock: MonotonicClock,
    /// The resources of these.
    resources: Vec<Resource>,
    limiters: Vec<Named<TokenBucket>>,
    /// The same, each of which can be replaced while threads decide, as a rule can.
    replaceable: Vec<ArcSwap<Named<TokenBucket>>>,
    least: Floor,
}

impl Subject {
    fn new(resources: usize) -> Self {
        let rules = |text: &str| {
            let rules = Rules::new(Arc::new(Registry::new()));
            rules.apply(&RuleSet::parse(text).expect("good rules"));
            rules
        };
        let bucket = format!("limit = \"{BURST} per second, bursts of {BURST}\"");
        let flow = rules(&changes::text(resources, changes::MANY));
        let rules = rules(&changes::text_of(resources, &bucket));
        let clock = rules.registry().clock().clone();
        let rate = Rate::per_second(BURST).expect("not zero");
        let bucket = || TokenBucket::with_clock(rate, BURST, clock.clone());
        let limiter = |place: usize| bucket().named(&name(place));
        let limiters = (0..resources).map(limiter).collect();
        let replaceable = (0..resources).map(|it| ArcSwap::from_pointee(limiter(it))).collect();
        let least = Floor::new(resources, bucket);
        let resource = |it: String| rules.registry().resource(&it).expect("room for it");
        let resources = names(resources).into_iter().map(resource).collect();
        Self { flow, rules, clock, resources, limiters, replaceable, least }
    }
}
