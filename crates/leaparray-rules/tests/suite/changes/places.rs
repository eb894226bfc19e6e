//! Where a resource finds its rules: in its word is a place in one version of one set of rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaparray::flow::{Ask, Decision, LimiterExt};
use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Resource, Timestamp};
use leaparray_rules::{RuleSet, Rules};

const NOW: Timestamp = Timestamp::from_secs(3_600);

fn registry() -> Arc<Registry<ManualClock>> {
    Arc::new(Registry::with_clock(RegistryConfig::default(), ManualClock::new(NOW)))
}

/// Returns rules that refuse each request of their resource: its name, and their own.
fn refusing(rules: &[(&str, &str)]) -> RuleSet {
    let table = |(resource, name): &(&str, &str)| {
        format!("[[rule]]\nname = \"{name}\"\nresource = \"{resource}\"\nin_flight = 0\n")
    };
    RuleSet::parse(&rules.iter().map(table).collect::<String>()).unwrap()
}

/// Returns the rule that refuses a request, which is the same one in each way to ask.
fn refused_by(
    rules: &Rules<ManualClock>,
    resource: &Resource<ManualClock>,
) -> Option<&'static str> {
    let ask = Ask::at(NOW);
    let by_rules = rules.ask(resource, &(), &ask).refusal().and_then(|it| it.limiter());
    let by_limiter = rules.limiter(resource, &()).ask(&ask).refusal();
    assert_eq!(by_limiter.and_then(|it| it.limiter()), by_rules);
    by_rules
}

#[test]
fn place_of_another_version_is_not_used() {
    let rules = Rules::new(registry());
    let [a, b] = ["a", "b"].map(|it| rules.registry().resource(it).unwrap());
    for _ in 0..3 {
        rules.apply(&refusing(&[("a", "of a"), ("b", "of b")]));
        let found = || [&a, &b].map(|it| refused_by(&rules, it));
        assert_eq!(found(), [Some("of a"), Some("of b")]);
        rules.apply(&refusing(&[("b", "of b"), ("a", "of a")]));
        assert_eq!(found(), [Some("of a"), Some("of b")]);
        // A list of several rules, and one of none.
        rules.apply(&refusing(&[("b", "of b"), ("b", "of b too")]));
        assert_eq!(found(), [None, Some("of b")]);
        rules.apply(&RuleSet::default());
        assert_eq!(found(), [None, None], "the thread has the version before");
    }
}

#[test]
fn each_handle_of_a_resource_has_the_newest_rules() {
    let rules = Rules::new(registry());
    let kept = rules.registry().resource("a").unwrap();
    // Handles of their own.
    let visited = rules.registry().iter().next().unwrap();
    let in_context = kept.in_context("web").unwrap();
    for names in [["one", "two"], ["two", "one"]] {
        for name in names {
            rules.apply(&refusing(&[("a", name)]));
            let asked = [&visited, &kept, &in_context, &visited];
            assert_eq!(asked.map(|it| refused_by(&rules, it)), [Some(name); 4]);
            rules.apply(&refusing(&[("b", name)]));
            assert_eq!([&kept, &visited].map(|it| refused_by(&rules, it)), [None; 2]);
        }
    }
}

#[test]
fn sets_of_rules_over_one_registry_take_turns() {
    let registry = registry();
    let resource = registry.resource("a").unwrap();
    let first = Rules::new(Arc::clone(&registry));
    first.apply(&refusing(&[("a", "first")]));
    for name in ["second", "third", "fourth"] {
        // In the place of the set that was dropped before.
        let other = Rules::new(Arc::clone(&registry));
        other.apply(&refusing(&[("b", "of b"), ("a", name)]));
        for _ in 0..3 {
            assert_eq!(refused_by(&first, &resource), Some("first"));
            assert_eq!(refused_by(&other, &resource), Some(name));
        }
    }
}

/// Two threads decide on one resource, each by a set of rules, of which one changes.
#[test]
fn sets_of_rules_decide_at_the_same_time() {
    let registry = registry();
    let [first, second] = [(); 2].map(|()| Rules::new(Arc::clone(&registry)));
    first.apply(&refusing(&[("a", "first")]));
    let versions = [
        refusing(&[("a", "second")]),
        refusing(&[("b", "other"), ("a", "second"), ("a", "second too")]),
    ];
    second.apply(&versions[0]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (rules, name) in [(&first, "first"), (&second, "second")] {
            let (registry, is_over) = (&registry, &is_over);
            scope.spawn(move || {
                let resource = registry.resource("a").unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(refused_by(rules, &resource), Some(name));
                }
            });
        }
        for change in 0..200 {
            second.apply(&versions[(change + 1) % 2]);
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn resource_that_is_listed_again_finds_its_rules() {
    let rules = Rules::new(registry());
    rules.apply(&refusing(&[("a", "of a"), ("b", "of b")]));
    let former = rules.registry().resource("a").unwrap();
    assert_eq!(refused_by(&rules, &former), Some("of a"));
    assert!(rules.registry().remove("a"));
    rules.apply(&refusing(&[("b", "of b"), ("a", "of a anew")]));
    let listed = rules.registry().resource("a").unwrap();
    for resource in [&former, &listed, &former] {
        assert_eq!(refused_by(&rules, resource), Some("of a anew"));
    }
}

#[test]
fn evicted_resource_finds_its_rules_when_it_is_listed_again() {
    let rules = Rules::new(registry());
    rules.apply(&refusing(&[("a", "of a"), ("b", "of b")]));
    for (name, rule) in [("a", Some("of a")), ("b", Some("of b")), ("c", None)].repeat(3) {
        let resource = rules.registry().resource(name).unwrap();
        assert_eq!(refused_by(&rules, &resource), rule);
        drop(resource);
        let later = NOW.saturating_add(Duration::from_secs(120));
        assert_eq!(rules.registry().evict_idle_at(later, Duration::from_secs(60)), 1, "{name}");
    }
}

#[test]
fn contexts_of_a_resource_have_its_rules() {
    let rules = Rules::new(registry());
    let text = "[[rule]]\nname = \"r\"\nresource = \"a\"\nlimit = \"2 per hour, bursts of 2\"";
    rules.apply(&RuleSet::parse(text).unwrap());
    let a = rules.registry().resource("a").unwrap();
    let nodes = [a.in_context("web").unwrap(), a.clone(), a.in_context("batch").unwrap()];
    let decisions = nodes.each_ref().map(|it| rules.ask(it, &(), &Ask::at(NOW)).is_admitted());
    assert_eq!(decisions, [true, true, false]);
    rules.apply(&refusing(&[("b", "of b"), ("a", "of a")]));
    assert_eq!(nodes.each_ref().map(|it| refused_by(&rules, it)), [Some("of a"); 3]);
}

/// With the clock of a process, the buckets of rules lie in groups, and a word names a bucket of
/// one: also if rules come, go and change beside it, and if only some requests are limited.
#[test]
fn each_rule_decides_by_its_own_bucket() {
    /// The rules of a version: their bursts by the number of the rule and of its resource.
    fn version(bursts: impl IntoIterator<Item = (usize, u64)>, more: &str) -> String {
        let rule = |(number, burst): (usize, u64)| {
            format!(
                "[[rule]]\nname = \"r{number}\"\nresource = \"{number}\"\n\
                 limit = \"{burst} per day, bursts of {burst}\"\n"
            )
        };
        let text: String = bursts.into_iter().map(rule).collect();
        format!("{more}{text}")
    }

    let registry = Registry::new();
    let resource = |number: usize| registry.resource(&number.to_string()).unwrap();
    let resources: Vec<_> = (0..11).map(resource).collect();
    let rules = Rules::new(Arc::new(registry));
    let apply = |text: &str| drop(rules.apply(&RuleSet::parse(text).unwrap()));
    // The requests that a resource admits, and the rule that refuses the next one.
    let taken = |number: usize| {
        let resource = &resources[number];
        let ask = || rules.ask(resource, &(), &Ask::at(resource.clock().now()));
        let decisions = (0..100).map(|_| ask());
        let admitted = decisions.take_while(Decision::is_admitted).count();
        (admitted, ask().refusal().and_then(|it| it.limiter()))
    };
    // 100 stands for a resource without a limit.
    let admit = |admitted: [usize; 11]| {
        for (number, admitted) in admitted.into_iter().enumerate() {
            let name = if number == 10 { "first".to_owned() } else { format!("r{number}") };
            let (taken, refused_by) = taken(number);
            assert_eq!(taken, admitted, "{number}");
            assert_eq!(refused_by, (admitted < 100).then_some(&*name), "{number}");
        }
    };
    apply(&version((0..9).map(|it| (it, it as u64 + 1)), ""));
    admit([1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 100]);
    // Two rules go, two come, and the others have other places in the list. Their state stays.
    let first =
        "[[rule]]\nname = \"first\"\nresource = \"10\"\nlimit = \"1 per day, bursts of 1\"\n";
    apply(&version((1..10).filter(|it| *it != 4).map(|it| (it, it as u64 + 1)), first));
    admit([100, 0, 0, 0, 100, 0, 0, 0, 0, 10, 1]);
    // A rule has another mode, and its neighbours do not.
    let shadow = first.replace("limit =", "mode = \"shadow\"\nlimit =");
    apply(&version((1..10).map(|it| (it, it as u64 + 1)), &shadow));
    admit([100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100]);
    // A rule is of another kind: its bucket is in the group of the others, and decides no more.
    let text = version((1..10).map(|it| (it, it as u64 + 1)), first);
    apply(&text);
    apply(&text.replace("8 per day, bursts of 8", "50 per day"));
    admit([100, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0]);
}
