//! Rules whose requests give way to each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use crate::keyed_priorities::OfClient;
use leaparray::flow::shadow::Share;
use leaparray::flow::watch::WatchedState;
use leaparray::flow::{Ask, LimiterExt, Reason};
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp, TrafficType};
use leaparray_rules::{Caller, Changes, KeySource, RuleEntry, RuleSet, Rules};

/// A request with the values of the header `x-class`.
struct Request(&'static [&'static str]);

impl Caller for Request {
    type Key = &'static str;

    fn key(&self, source: &KeySource) -> Option<&'static str> {
        match (source, self.0) {
            (KeySource::Header(name), [one]) if &**name == "x-class" => Some(one),
            _ => None,
        }
    }

    fn several(&self, source: &KeySource) -> Vec<&'static str> {
        match source {
            KeySource::Header(name) if &**name == "x-class" => self.0.to_vec(),
            _ => Vec::new(),
        }
    }
}

pub(crate) const NOW: Timestamp = Timestamp::from_secs(3_600);
pub(crate) const SHARES: &str =
    "shares = { payments = \"100 %\", \"*\" = \"80 %\", batch = \"50 %\" }";

pub(crate) fn with(limiter: &str) -> RuleSet {
    let text = format!(
        "[[rule]]\nname = \"r\"\nresource = \"a\"\npriority = \"header:x-class\"\n{limiter}\n"
    );
    RuleSet::parse(&text).unwrap_or_else(|it| panic!("{it}"))
}

pub(crate) fn rules(set: &RuleSet) -> Rules<ManualClock> {
    let registry = Registry::with_clock(RegistryConfig::default(), ManualClock::new(NOW));
    let rules = Rules::new(Arc::new(registry));
    rules.apply(set);
    rules
}

pub(crate) type Held = Vec<RuleEntry<ManualClock>>;

/// Enters requests of these values until one is refused.
fn fill(rules: &Rules<ManualClock>, values: &'static [&'static str]) -> Held {
    (0..100).map_while(|_| rules.try_enter("a", Request(values)).ok()).collect()
}

#[test]
fn lower_class_gives_way_and_leaves_the_reserve() {
    for limit in ["in_flight = 10", "in_flight = { min = 10, first = 10, max = 10 }"] {
        let rules = rules(&with(&format!("{limit}\n{SHARES}")));
        let batch = fill(&rules, &["batch"]);
        assert_eq!(batch.len(), 5, "{limit}");
        let a = rules.registry().resource("a").unwrap();
        let refusal = rules.ask(&a, &Request(&["batch"]), &Ask::at(NOW)).refusal().unwrap();
        assert_eq!((refusal.reason, refusal.limiter()), (Reason::GIVES_WAY, Some("r")));
        let by_limiter = rules.limiter(&a, &Request(&["batch"])).ask(&Ask::at(NOW)).refusal();
        assert_eq!(by_limiter, Some(refusal));
        let (others, payments) = (fill(&rules, &["web"]), fill(&rules, &["payments"]));
        assert_eq!((others.len(), payments.len()), (3, 2), "{limit}");
        let WatchedState::Quota(quota) = rules.registry().watched()[0].state else { panic!() };
        assert_eq!((quota.limit, quota.remaining), (10, 0), "{limit}");
        drop((batch, others));
        assert_eq!(fill(&rules, &["batch"]).len(), 3, "two of the payments and three");
        drop(payments);
        assert_eq!(fill(&rules, &["payments"]).len(), 10);
    }
}

#[test]
fn request_gains_nothing_by_leaving_its_class_out_or_by_further_values() {
    let with_others = rules(&with(&format!("in_flight = 10\n{SHARES}")));
    for (values, most) in [
        (&[][..], 8),
        (&["unknown"], 8),
        (&["payments"], 10),
        (&["payments", "batch"], 5),
        (&["batch", "unknown"], 5),
        (&["payments", "unknown"], 8),
    ] {
        assert_eq!(fill(&with_others, values).len(), most, "{values:?}");
    }
    let lowest = "in_flight = 10\nshares = { payments = \"100 %\", batch = \"40 %\" }";
    let without_others = rules(&with(lowest));
    for (values, most) in [(&[][..], 4), (&["unknown"], 4), (&["payments"], 10)] {
        assert_eq!(fill(&without_others, values).len(), most, "{values:?}");
    }
}

#[test]
fn context_of_a_request_is_its_class() {
    let text = "[[rule]]\nname = \"r\"\nresource = \"a\"\nin_flight = 10\n\
                priority = \"context\"\nshares = { web = \"100 %\", batch = \"50 %\" }";
    let rules = rules(&RuleSet::parse(text).unwrap());
    let a = rules.registry().resource("a").unwrap();
    let fill = |context| {
        let handle = a.in_context(context).unwrap();
        let enter = || rules.try_enter_at(handle.clone(), &(), NOW).ok();
        (0..100).map_while(|_| enter()).collect::<Held>()
    };
    let batch = fill("batch");
    assert_eq!((batch.len(), fill("web").len()), (5, 5));
    drop(batch);
    assert_eq!(rules.registry().iter().map(|it| it.concurrency()).sum::<u64>(), 0);
}

#[test]
fn shadow_counts_the_requests_that_would_give_way() {
    let rules = rules(&with(&format!("in_flight = 10\nmode = \"shadow\"\n{SHARES}")));
    assert_eq!(fill(&rules, &["batch"]).len(), 100);
    let WatchedState::Shadow { counts, .. } = &rules.registry().watched()[0].state else {
        panic!("a shadow")
    };
    assert_eq!(counts.would_refuse, 95);
}

/// Permits that are held count after a change of the limit, of the shares, of the classes, and of
/// the source of the class.
#[test]
fn change_of_the_shares_or_the_limit_keeps_the_permits_in_use() {
    let before = format!("in_flight = 10\n{SHARES}");
    for (after, left) in [
        (format!("in_flight = 20\n{SHARES}"), 5),
        (before.replace("50 %", "70 %"), 2),
        (before.replace("50 %", "20 %"), 0),
        (before.replace("batch = \"50 %\"", "night = \"50 %\""), 3),
        (before.replace("payments", "batch").replace(", batch = \"50 %\"", ""), 5),
    ] {
        let rules = rules(&with(&before));
        let held = fill(&rules, &["batch"]);
        assert_eq!(held.len(), 5);
        let changes = rules.apply(&with(&after));
        assert_eq!(changes.changed, [Arc::from("r")], "{after}");
        assert_eq!(fill(&rules, &["batch"]).len(), left, "{after}");
        drop(held);
        rules.apply(&with(&before));
        assert_eq!(fill(&rules, &["payments"]).len(), 10, "{after}: each has come back");
    }
    let rules = rules(&with(&before));
    let held = fill(&rules, &["batch"]);
    let source = with(&before).rules()[0].to_string().replace("x-class", "x-other");
    assert_eq!(rules.apply(&RuleSet::parse(&source).unwrap()).changed.len(), 1);
    assert_eq!((held.len(), fill(&rules, &["batch"]).len()), (5, 3), "a request without a class");
    let anew: Changes = rules.apply(
        &RuleSet::parse("[[rule]]\nname = \"r\"\nresource = \"a\"\nin_flight = 10").unwrap(),
    );
    assert_eq!(anew.begun_anew, [Arc::from("r")], "a limit without classes is another limiter");
}

/// A request whose caller changes the rules when it is first asked for its class, or its tenant.
pub(crate) struct Changing<'a> {
    pub(crate) rules: &'a Rules<ManualClock>,
    /// The rules after the change.
    pub(crate) next: Cell<Option<RuleSet>>,
    /// Its class, or its tenant.
    pub(crate) of: &'static str,
}

impl Caller for Changing<'_> {
    type Key = &'static str;

    fn key(&self, _source: &KeySource) -> Option<&'static str> {
        if let Some(next) = self.next.take() {
            self.rules.apply(&next);
        }
        Some(self.of)
    }
}

/// A request that now and then changes the rules when its caller is asked for a class or a tenant.
/// So they are changed in the middle of decisions; the changes of another thread may never be.
pub(crate) struct InTheMiddle<'a, A> {
    caller: &'a A,
    asked: Cell<u64>,
    change: &'a dyn Fn(),
}

impl<'a, A> InTheMiddle<'a, A> {
    pub(crate) fn new(caller: &'a A, change: &'a dyn Fn()) -> Self {
        Self { caller, asked: Cell::new(0), change }
    }
}

impl<A: Caller> Caller for InTheMiddle<'_, A> {
    type Key = A::Key;

    fn key(&self, source: &KeySource) -> Option<A::Key> {
        self.asked.set(self.asked.get() + 1);
        if self.asked.get().is_multiple_of(16) {
            (self.change)();
        }
        self.caller.key(source)
    }

    fn several(&self, source: &KeySource) -> Vec<A::Key> {
        self.caller.several(source)
    }
}

/// The limit of the first version is in use, and so is the share of the second one. The share of
/// the first one of the limit of the second one is not.
#[test]
fn share_of_one_version_and_limit_of_another_admit_no_request() {
    let version = |limit: u64, share: u64| {
        with(&format!(
            "in_flight = {limit}\nshares = {{ \"*\" = \"100 %\", batch = \"{share} %\" }}"
        ))
    };
    for by_limiter in [false, true] {
        let rules = rules(&version(10, 100));
        let held = fill(&rules, &["batch"]);
        let a = rules.registry().resource("a").unwrap();
        let next = Cell::new(Some(version(40, 25)));
        let caller = Changing { rules: &rules, next, of: "batch" };
        let decision = if by_limiter {
            rules.limiter(&a, &caller).ask(&Ask::at(NOW)).map(drop)
        } else {
            rules.ask(&a, &caller, &Ask::at(NOW)).map(drop)
        };
        assert!(decision.is_refused(), "by a limiter: {by_limiter}");
        assert_eq!((rules.status().version, held.len()), (2, 10));
        drop(held);
        assert_eq!(fill(&rules, &["web"]).len(), 40, "each has come back");
    }
}

/// 1,000 changes of the shares beside four threads, and more in the middle of decisions. Three
/// threads are of a class with two permits in each version: it never has more in flight, and each
/// permit comes back.
#[test]
fn shares_hold_while_they_change() {
    let version = |limit: u64, batch: u64| {
        with(&format!("in_flight = {limit}\nshares = {{ web = \"100 %\", batch = \"{batch} %\" }}"))
    };
    let versions = [version(2, 100), version(8, 25), version(4, 50)];
    let rules = rules(&versions[0]);
    let is_over = AtomicBool::new(false);
    let inside = [(); 2].map(|()| AtomicU64::new(0));
    let (most, most_batch) = (AtomicU64::new(0), AtomicU64::new(0));
    let changes = AtomicUsize::new(0);
    let change = || {
        let change = changes.fetch_add(1, Ordering::Relaxed);
        rules.apply(&versions[change % versions.len()]);
    };
    let enter = |request: &InTheMiddle<'_, Request>| {
        let Ok(entry) = rules.try_enter("a", request) else { return };
        let places = if request.caller.0 == ["batch"] { &inside[..] } else { &inside[..1] };
        for (place, most) in places.iter().zip([&most, &most_batch]) {
            most.fetch_max(place.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        std::thread::yield_now();
        std::thread::yield_now();
        for place in places {
            place.fetch_sub(1, Ordering::Relaxed);
        }
        entry.success();
    };
    let start = Barrier::new(5);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (enter, is_over, change, start) = (&enter, &is_over, &change, &start);
            scope.spawn(move || {
                let request = Request(if thread < 3 { &["batch"] } else { &["web"] });
                let request = InTheMiddle::new(&request, change);
                start.wait();
                while !is_over.load(Ordering::Relaxed) {
                    enter(&request);
                }
            });
        }
        start.wait();
        (0..1_000).for_each(|_| change());
        is_over.store(true, Ordering::Relaxed);
    });
    let (most, most_batch) = (most.into_inner(), most_batch.into_inner());
    assert!(most <= 8 && most_batch <= 2, "{most} in flight, {most_batch} of batch");
    rules.apply(&versions[2]);
    assert_eq!(fill(&rules, &["web"]).len(), 4);
}

#[test]
fn explanation_tells_the_class_and_its_share() {
    let rules = with(&format!("in_flight = 10\n{SHARES}"));
    let explain =
        |values| rules.explain(TrafficType::Inbound, "a", &Request(values)).rules[0].clone();
    let batch = explain(&["batch", "payments"]);
    assert_eq!(batch.class, Some(("batch".to_owned(), Share::percent(50).unwrap())));
    assert_eq!(
        batch.to_string(),
        "r: \"a\" is its name, of header:x-class = \"batch\", up to 50 % of the limit\n   \
         in_flight = 10\n   priority = \"header:x-class\"\n   \
         shares = { \"*\" = \"80 %\", \"batch\" = \"50 %\", \"payments\" = \"100 %\" }"
    );
    let without = explain(&[]).to_string();
    assert!(without.contains(", without header:x-class, up to 80 % of the limit"), "{without}");
    let rules = with(&format!("key = \"client\"\nin_flight = 10\n{SHARES}"));
    let of_key = rules.explain(TrafficType::Inbound, "a", &OfClient("ann", "batch")).to_string();
    let counted =
        "counted by client = \"ann\", of header:x-class = \"batch\", up to 50 % of the limit";
    assert!(of_key.contains(counted), "{of_key}");
}

#[test]
fn each_problem_of_a_priority_says_what_would_be_right() {
    let table = "a table such as { payments = \"100 %\", \"*\" = \"80 %\", batch = \"50 %\" }";
    let share = "a share of the limit such as \"80 %\"";
    let class = "priority = \"header:x-class\"\n";
    for (lines, expected) in [
        (
            format!("{class}limit = \"5 per second\"\nshares = {{ a = \"100 %\" }}"),
            "4: rule \"r\": priority: has no meaning without `in_flight`; add that, or remove this key".to_owned(),
        ),
        (
            format!("{class}in_flight = 5"),
            "1: rule \"r\": lacks the shares of its classes; write `shares`".to_owned(),
        ),
        (
            "in_flight = 5\nshares = { a = \"100 %\" }".to_owned(),
            "5: rule \"r\": shares: has no meaning without `priority`; add that, or remove this key".to_owned(),
        ),
        (
            format!("{class}in_flight = 5\nshares = \"80 %\""),
            format!("6: rule \"r\": shares: is a string; write {table}"),
        ),
        (
            format!("{class}in_flight = 5\nshares = {{}}"),
            format!("6: rule \"r\": shares: names no class; write {table}"),
        ),
        (
            format!("{class}in_flight = 5\nshares = {{ a = 1 }}"),
            format!("6: rule \"r\": shares.\"a\": is an integer; write {share}"),
        ),
        (
            format!("{class}in_flight = 5\nshares = {{ a = \"101 %\" }}"),
            format!(
                "6: rule \"r\": shares.\"a\": \"101 %\" is no share from 0 % to 100 %; write {share}"
            ),
        ),
        (
            format!("{class}in_flight = 5\nshares = {{ \"\" = \"100 %\" }}"),
            "6: rule \"r\": shares.\"\": \"\" is no class; write a name, or \"*\" for all other \
             requests"
                .to_owned(),
        ),
        (
            format!("{class}in_flight = 5\nshares = {{ a = \"90 %\", b = \"5 %\" }}"),
            "6: rule \"r\": shares: no class may use more than 90 % of the limit; write \"100 %\" \
             for the highest class"
                .to_owned(),
        ),
        (
            "priority = \"cookie\"\nin_flight = 5\nshares = { a = \"100 %\" }".to_owned(),
            "4: rule \"r\": priority: \"cookie\" is no key; write \"client\", \"client/24\", \
             \"resource\", \"context\", \"header:NAME\" or \"extension:NAME\""
                .to_owned(),
        ),
    ] {
        let text = format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{lines}\n");
        let problems = RuleSet::parse(&text).unwrap_err().in_source("f").to_string();
        assert_eq!(problems, format!("f:{expected}"), "{text}");
    }
}
