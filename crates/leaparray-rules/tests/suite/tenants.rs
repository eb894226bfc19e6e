//! Rules whose tenants share a limit fairly.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use leaparray::flow::watch::WatchedState;
use leaparray::flow::{Ask, LimiterExt, Reason};
use leaparray::{
    Clock, ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp, TrafficType,
};
use leaparray_rules::{Caller, KeySource, Rule, RuleClock, RuleEntry, RuleSet, Rules};

use crate::priorities::{Changing, InTheMiddle};

const NOW: Timestamp = Timestamp::from_secs(3_600);
const TENANT: &str = "tenant = \"header:x-tenant\"";

fn parse(lines: &str) -> RuleSet {
    let text = format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{lines}\n");
    RuleSet::parse(&text).unwrap_or_else(|it| panic!("{it}"))
}

fn rules(lines: &str) -> Rules<ManualClock> {
    let registry = Registry::with_clock(RegistryConfig::default(), ManualClock::new(NOW));
    let rules = Rules::new(Arc::new(registry));
    rules.apply(&parse(lines));
    rules
}

type Held = Vec<RuleEntry<ManualClock>>;

/// Enters requests of a tenant until one is refused.
fn fill(rules: &Rules<ManualClock>, tenant: &'static str) -> Held {
    (0..100).map_while(|_| rules.try_enter("a", tenant).ok()).collect()
}

/// Returns the limit, and the permits of it that are left.
fn room<C: RuleClock>(rules: &Rules<C>) -> (u64, u64) {
    let WatchedState::Quota(quota) = rules.registry().watched()[0].state else { panic!("a quota") };
    (quota.limit, quota.remaining)
}

/// Gives back permits of `held` and of another tenant in turn. Both ask for each of these, `ann`
/// first. Returns the permits that each tenant holds in the end.
fn share(rules: &Rules<ManualClock>, mut held: Held) -> [usize; 2] {
    let mut of_bob = fill(rules, "bob");
    for turn in 0..300 {
        let ends = if turn % 2 == 0 { &mut held } else { &mut of_bob };
        ends.remove(0).success();
        held.extend(rules.try_enter("a", "ann").ok());
        of_bob.extend(rules.try_enter("a", "bob").ok());
    }
    [held.len(), of_bob.len()]
}

#[test]
fn tenants_get_their_weighted_shares_of_the_limit() {
    for limit in ["in_flight = 32", "in_flight = { min = 32, first = 32, max = 32 }"] {
        for (weights, shares) in [
            ("", [15, 15]),
            ("weights = { bob = 2 }", [10, 20]),
            ("weights = { \"*\" = 9 }", [15, 15]),
        ] {
            let rules = rules(&format!("{limit}\n{TENANT}\n{weights}"));
            let of_ann = fill(&rules, "ann");
            assert_eq!(of_ann.len(), 30, "{limit}: all but a reserve of a sixteenth");
            let a = rules.registry().resource("a").unwrap();
            let refusal = rules.ask(&a, &"ann", &Ask::at(NOW)).refusal().unwrap();
            assert_eq!((refusal.reason, refusal.limiter()), (Reason::SHARE_USED, Some("r")));
            let by_limiter = rules.limiter(&a, &"ann").ask(&Ask::at(NOW)).refusal();
            assert_eq!(by_limiter, Some(refusal));
            assert_eq!(room(&rules), (32, 2), "{limit}");
            assert_eq!(share(&rules, of_ann), shares, "{limit}, {weights}");
            assert_eq!(a.concurrency(), 0);
            assert_eq!(room(&rules), (32, 32), "{limit}: each has come back");
        }
    }
}

/// Several rules refuse by a peek, which makes a tenant hungry as a decision does.
#[test]
fn tenants_get_their_shares_beside_another_rule() {
    for other in ["limit = \"9999 per 1s\"", "in_flight = 99", "key = \"client\"\nin_flight = 99"] {
        let other = format!("[[rule]]\nname = \"other\"\nresource = \"a\"\n{other}");
        let rules = rules(&format!("in_flight = 32\n{TENANT}\n\n{other}"));
        let of_ann = fill(&rules, "ann");
        assert_eq!(share(&rules, of_ann), [15, 15], "{other}");
    }
}

#[test]
fn requests_without_a_tenant_are_one() {
    let rules = rules(&format!("in_flight = 32\n{TENANT}\nmax_keys = 100"));
    let without: Held = (0..100).map_while(|_| rules.try_enter("a", ()).ok()).collect();
    assert_eq!(without.len(), 30);
    assert_eq!(fill(&rules, "ann").len(), 2, "the reserve");
}

#[test]
fn shadow_counts_the_requests_beyond_a_share() {
    let rules = rules(&format!("in_flight = 32\nmode = \"shadow\"\n{TENANT}"));
    assert_eq!(fill(&rules, "ann").len(), 100);
    let WatchedState::Shadow { counts, .. } = &rules.registry().watched()[0].state else {
        panic!("a shadow")
    };
    assert_eq!(counts.would_refuse, 70);
}

/// Permits that are held count after a change of the limit, of the weights, and of the source.
#[test]
fn change_of_the_weights_or_the_limit_keeps_the_permits_in_use() {
    let before = format!("in_flight = 32\n{TENANT}");
    for (after, left) in [
        (before.replace("32", "64"), 30),
        (format!("{before}\nweights = {{ ann = 7 }}"), 0),
        (before.replace("x-tenant", "x-other"), 0),
        (before.replace("32", "16"), 0),
    ] {
        let rules = rules(&before);
        let held = fill(&rules, "ann");
        assert_eq!(rules.apply(&parse(&after)).changed, [Arc::from("r")], "{after}");
        assert_eq!((held.len(), fill(&rules, "ann").len()), (30, left), "{after}");
        drop(held);
        rules.apply(&parse(&before));
        assert_eq!(room(&rules), (32, 32), "{after}: each has come back");
    }
    for other in ["in_flight = 32", &format!("{before}\nmax_keys = 7")] {
        let rules = rules(&before);
        assert_eq!(rules.apply(&parse(other)).begun_anew, [Arc::from("r")], "{other}");
    }
}

/// Of the first version, the limit is in use, and of the second one, the share of the tenant. The
/// weight of the first one has a larger share of the limit of the second one.
#[test]
fn weight_of_one_version_and_limit_of_another_admit_no_request() {
    let version = |limit: u64, ann: u64| {
        parse(&format!("in_flight = {limit}\n{TENANT}\nweights = {{ ann = {ann} }}"))
    };
    for by_limiter in [false, true] {
        let rules = rules(&format!("in_flight = 32\n{TENANT}"));
        let held: Held = (0..20).map(|_| rules.try_enter("a", "ann").unwrap()).collect();
        rules.apply(&version(8, 7));
        assert!(rules.try_enter("a", "bob").is_err(), "from now on, bob has a share");
        let a = rules.registry().resource("a").unwrap();
        let next = Cell::new(Some(version(32, 1)));
        let caller = Changing { rules: &rules, next, of: "ann" };
        let decision = if by_limiter {
            rules.limiter(&a, &caller).ask(&Ask::at(NOW)).map(drop)
        } else {
            rules.ask(&a, &caller, &Ask::at(NOW)).map(drop)
        };
        assert!(decision.is_refused(), "by a limiter: {by_limiter}");
        rules.apply(&version(32, 7));
        assert!(rules.try_enter("a", "ann").is_ok(), "26 of 32");
        drop(held);
        assert_eq!(room(&rules), (32, 32), "each has come back");
    }
}

/// A request of a user in a team. Versions of the rules differ in which of the two is its tenant.
struct OfTeam {
    user: &'static str,
    team: &'static str,
}

impl Caller for OfTeam {
    type Key = &'static str;

    fn key(&self, source: &KeySource) -> Option<&'static str> {
        match source {
            KeySource::Header(name) if &**name == "x-user" => Some(self.user),
            KeySource::Header(name) if &**name == "x-team" => Some(self.team),
            _ => None,
        }
    }
}

/// Two threads have the same user, and two the same team.
const CALLERS: [OfTeam; 4] = [
    OfTeam { user: "ann", team: "red" },
    OfTeam { user: "ann", team: "blue" },
    OfTeam { user: "bob", team: "red" },
    OfTeam { user: "eve", team: "green" },
];

/// What a thread has asked for, and what it was told.
#[derive(Debug, Default)]
struct Told {
    asked: u64,
    admitted: u64,
    refused: u64,
}

/// 1,000 changes of the tenants, of their weights and of the limit beside four threads, and more in
/// the middle of their decisions: never more in flight than the larger limit, each request is
/// counted once, and each permit comes back.
#[test]
fn shares_of_tenants_hold_while_they_change() {
    let version = |limit: u64, of: &str, weights: &str| {
        parse(&format!(
            "in_flight = {limit}\ntenant = \"header:x-{of}\"\nweights = {{ {weights} }}"
        ))
    };
    let versions = [
        version(1, "user", "ann = 1, bob = 9"),
        version(3, "team", "red = 8"),
        version(2, "user", "ann = 2, \"*\" = 3"),
        version(3, "user", "eve = 200"),
    ];
    let rules = Rules::new(Arc::new(Registry::new()));
    rules.apply(&versions[0]);
    let a = rules.registry().resource("a").unwrap();
    let (is_over, inside, most) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let changes = AtomicUsize::new(0);
    let change = || {
        let change = changes.fetch_add(1, Ordering::Relaxed);
        rules.apply(&versions[change % versions.len()]);
    };
    let have_asked = Barrier::new(CALLERS.len() + 1);
    let told = std::thread::scope(|scope| {
        // Each through a context of its own, whose node counts its requests.
        let threads = CALLERS.each_ref().map(|caller| {
            let context = a.in_context(&format!("{} {}", caller.user, caller.team)).unwrap();
            let (rules, is_over, inside, most) = (&rules, &is_over, &inside, &most);
            let (have_asked, change) = (&have_asked, &change);
            scope.spawn(move || {
                let caller = &InTheMiddle::new(caller, change);
                let mut told = Told::default();
                while !is_over.load(Ordering::Relaxed) {
                    if told.asked == 1 {
                        have_asked.wait();
                    }
                    told.asked += 1;
                    let now = context.clock().now();
                    let Ok(entry) = rules.try_enter_at(context.clone(), caller, now) else {
                        told.refused += 1;
                        continue;
                    };
                    told.admitted += 1;
                    most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::Relaxed);
                    entry.success();
                }
                (context, told)
            })
        });
        // Otherwise, the changes may be over before a thread has asked.
        have_asked.wait();
        (0..1_000).for_each(|_| change());
        is_over.store(true, Ordering::Relaxed);
        threads.map(|it| it.join().unwrap())
    });
    let most = most.into_inner();
    assert!((1..=3).contains(&most), "{most} in flight");
    for (context, told) in told {
        let lifetime = context.lifetime();
        let [passed, blocked, succeeded] =
            [MetricEvent::Pass, MetricEvent::Block, MetricEvent::Success]
                .map(|event| lifetime.sum(event));
        let name = context.context().unwrap_or_default();
        assert_eq!((passed, succeeded, blocked), (told.admitted, told.admitted, told.refused));
        assert_eq!(passed + blocked, told.asked, "{name}: {told:?}");
        assert_eq!(context.concurrency(), 0, "{name}");
    }
    rules.apply(&version(32, "team", "red = 8"));
    assert_eq!(room(&rules), (32, 32), "each has come back");
}

/// Each version refuses all requests: one by its first rule, and the other by its second. A request
/// that is decided by the first rule of one version and the second of the other is admitted.
/// `changes::in_the_middle::tenants` tells where its permits are after that.
#[test]
fn no_tenant_is_admitted_by_half_of_two_versions() {
    let version = |of: &str, limits: [u64; 2], weight: u64| {
        let rule = |(name, limit): (&str, u64)| {
            format!(
                "[[rule]]\nname = \"{name}\"\nresource = \"a\"\nin_flight = {limit}\n\
                 tenant = \"header:x-{of}\"\nweights = {{ ann = {weight} }}\n"
            )
        };
        let text = [("first", limits[0]), ("second", limits[1])].map(rule).concat();
        RuleSet::parse(&text).unwrap()
    };
    let versions = [version("user", [0, 100], 1), version("team", [100, 0], 9)];
    let rules = Rules::new(Arc::new(Registry::new()));
    rules.apply(&versions[0]);
    let a = rules.registry().resource("a").unwrap();
    let (is_over, start) = (AtomicBool::new(false), Barrier::new(CALLERS.len() + 1));
    let changes = AtomicUsize::new(0);
    let change = || {
        let change = changes.fetch_add(1, Ordering::Relaxed);
        rules.apply(&versions[change % 2]);
    };
    std::thread::scope(|scope| {
        for caller in &CALLERS {
            let (rules, a, is_over, start) = (&rules, a.clone(), &is_over, &start);
            let change = &change;
            scope.spawn(move || {
                let caller = &InTheMiddle::new(caller, change);
                start.wait();
                while !is_over.load(Ordering::Relaxed) {
                    assert!(rules.ask(&a, caller, &Ask::at(a.clock().now())).is_refused());
                    assert!(rules.limiter(&a, caller).try_acquire().is_refused());
                }
            });
        }
        start.wait();
        (0..1_000).for_each(|_| change());
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn explanation_tells_the_tenant_and_its_weight() {
    let rules = parse(&format!("in_flight = 32\n{TENANT}\nweights = {{ acme = 4, \"*\" = 2 }}"));
    let explain = |tenant| rules.explain(TrafficType::Inbound, "a", &tenant).rules[0].clone();
    let acme = explain("acme");
    assert_eq!(acme.tenant, Some(("acme".to_owned(), 4)));
    assert_eq!(
        acme.to_string(),
        "r: \"a\" is its name, of tenant header:x-tenant = \"acme\", with weight 4\n   \
         in_flight = 32\n   tenant = \"header:x-tenant\"\n   \
         weights = { \"*\" = 2, \"acme\" = 4 }"
    );
    let without = rules.explain(TrafficType::Inbound, "a", &()).to_string();
    let all = ", a tenant with all that lack header:x-tenant, with weight 2";
    assert!(without.contains(all), "{without}");
    let default = parse(&format!("in_flight = 32\n{TENANT}"));
    assert_eq!(default.rules()[0].max_keys, Rule::DEFAULT_MAX_TENANTS);
}

#[test]
fn each_problem_of_tenants_says_what_would_be_right() {
    let table = "a table such as { acme = 4, \"*\" = 2, trial = 1 }";
    let weight = "a weight from 1 to 255";
    for (lines, expected) in [
        (
            format!("{TENANT}\nlimit = \"5 per second\""),
            "4: rule \"r\": tenant: has no meaning without `in_flight`; add that, or remove this key"
                .to_owned(),
        ),
        (
            "in_flight = 5\nweights = { a = 1 }".to_owned(),
            "5: rule \"r\": weights: has no meaning without `tenant`; add that, or remove this key"
                .to_owned(),
        ),
        (
            format!("{TENANT}\nin_flight = 5\nkey = \"client\""),
            "4: rule \"r\": tenant: cannot stand beside `key`; remove one of them".to_owned(),
        ),
        (
            format!("{TENANT}\nin_flight = 5\npriority = \"context\"\nshares = {{ a = \"100 %\" }}"),
            "4: rule \"r\": tenant: cannot stand beside `priority`; remove one of them".to_owned(),
        ),
        (
            format!("{TENANT}\nin_flight = 5\nmax_keys = 16777217"),
            "6: rule \"r\": max_keys: is out of range; write a number of tenants from 1 to 16777216"
                .to_owned(),
        ),
        (
            format!("{TENANT}\nin_flight = 5\nweights = 4"),
            format!("6: rule \"r\": weights: is an integer; write {table}"),
        ),
        (
            format!("{TENANT}\nin_flight = 5\nweights = {{}}"),
            format!("6: rule \"r\": weights: names no tenant; write {table}"),
        ),
        (
            format!("{TENANT}\nin_flight = 5\nweights = {{ a = \"4\" }}"),
            format!("6: rule \"r\": weights.\"a\": is a string; write {weight}"),
        ),
        (
            format!("{TENANT}\nin_flight = 5\nweights = {{ a = 256 }}"),
            format!("6: rule \"r\": weights.\"a\": 256 is out of range; write {weight}"),
        ),
        (
            format!("{TENANT}\nin_flight = 5\nweights = {{ a = 0 }}"),
            format!("6: rule \"r\": weights.\"a\": 0 is out of range; write {weight}"),
        ),
        (
            format!("{TENANT}\nin_flight = 5\nweights = {{ \"\" = 4 }}"),
            "6: rule \"r\": weights.\"\": \"\" is no tenant; write a name, or \"*\" for all other \
             tenants"
                .to_owned(),
        ),
    ] {
        let text = format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{lines}\n");
        let problems = RuleSet::parse(&text).unwrap_err().in_source("f").to_string();
        assert_eq!(problems, format!("f:{expected}"), "{text}");
    }
}
