//! The memory of a rule besides its limiter. Alone in its binary: the allocator counts the whole
//! process.

use std::sync::Arc;

use leaparray::flow::{ConcurrencyLimiter, Rate, SlidingWindowLimiter, TokenBucket};
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_rules::{RuleSet, Rules};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const RULES: usize = 1_000;

fn bytes_of<T>(make: impl FnOnce() -> T) -> (usize, T) {
    let before = dhat::HeapStats::get().curr_bytes;
    let result = make();
    (dhat::HeapStats::get().curr_bytes - before, result)
}

#[test]
fn rule_takes_a_kibibyte_beside_its_limiter_at_most() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let rate = Rate::per_second(10).unwrap();
    let window = |_| {
        let second = std::time::Duration::from_secs(1);
        SlidingWindowLimiter::with_clock(second, 10, clock.clone()).unwrap()
    };
    // What a program by hand has, as the rules have it: behind a pointer.
    let by_hand = [
        bytes_of(|| (0..RULES).map(|it| Arc::new(window(it))).collect::<Vec<_>>()).0,
        bytes_of(|| {
            let bucket = |_| Arc::new(TokenBucket::with_clock(rate, 10, clock.clone()));
            (0..RULES).map(bucket).collect::<Vec<_>>()
        })
        .0,
        bytes_of(|| (0..RULES).map(|_| Arc::new(ConcurrencyLimiter::new(10))).collect::<Vec<_>>())
            .0,
    ];
    let limits =
        ["limit = \"10 per second\"", "limit = \"10 per second, bursts of 10\"", "in_flight = 10"];
    for (limit, by_hand) in limits.into_iter().zip(by_hand) {
        let rule =
            |it| format!("[[rule]]\nname = \"rule {it}\"\nresource = \"GET /{it}\"\n{limit}\n");
        let text = (0..RULES).map(rule).collect::<Vec<_>>().concat();
        let set = RuleSet::parse(&text).unwrap();
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let rules = Rules::new(Arc::new(registry));
        let (bytes, ()) = bytes_of(|| drop(rules.apply(&set)));
        let beside = bytes.saturating_sub(by_hand) / RULES;
        assert!(beside <= 1_024, "{limit}: {beside} bytes beside {}", by_hand / RULES);
        println!("{limit}: {beside} bytes beside {}", by_hand / RULES);
    }
    changed_rules_take_a_kibibyte_at_most(&clock, by_hand[1] / RULES);
}

/// Each second change replaces a limiter by a bucket. After the changes, a rule takes at most as
/// much memory as promised, as after a load of all of them.
fn changed_rules_take_a_kibibyte_at_most(clock: &ManualClock, bucket: usize) {
    const MANY: usize = 100;
    const KINDS: [&str; 2] = ["10 per second, bursts of 10", "10 per second"];
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let rules = Rules::new(Arc::new(registry));
    let set = |window: Option<usize>| {
        let rule = |it: usize| {
            let (kind, name) = (KINDS[usize::from(window == Some(it))], format!("rule {it}"));
            format!("[[rule]]\nname = \"{name}\"\nresource = \"GET /{it}\"\nlimit = \"{kind}\"\n")
        };
        RuleSet::parse(&(0..MANY).map(rule).collect::<String>()).unwrap()
    };
    let apply = |set: &RuleSet| {
        // A limiter that is gone can come back with its state for an hour.
        clock.advance(std::time::Duration::from_secs(3_601));
        drop(rules.apply(set));
    };
    let (buckets, each): (_, Vec<_>) = (set(None), (0..MANY).map(|it| set(Some(it))).collect());
    let (loaded, ()) = bytes_of(|| apply(&buckets));
    let empty = dhat::HeapStats::get().curr_bytes - loaded;
    for change in 0..500 {
        apply(&each[change % MANY]);
        apply(&buckets);
    }
    apply(&buckets);
    let changed = dhat::HeapStats::get().curr_bytes - empty;
    let beside = [loaded, changed].map(|it| (it / MANY).saturating_sub(bucket));
    println!("a load, 1,000 changes: {beside:?} bytes beside {bucket}");
    assert!(beside.iter().all(|it| *it <= 1_024), "{beside:?} bytes of a rule beside {bucket}");
}
