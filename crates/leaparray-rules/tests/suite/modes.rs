//! Rules that are tried before they are enforced.

use std::sync::Arc;

use leaparray::flow::shadow::Mode;
use leaparray::flow::watch::WatchedState;
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_rules::{RuleSet, Rules};

fn rules() -> Rules<ManualClock> {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    Rules::new(Arc::new(Registry::with_clock(RegistryConfig::default(), clock)))
}

fn apply(rules: &Rules<ManualClock>, lines: &str) {
    let text = format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{lines}");
    rules.apply(&RuleSet::parse(&text).unwrap());
}

fn admitted(rules: &Rules<ManualClock>, tries: usize) -> usize {
    (0..tries).filter(|_| rules.enter("a", "ann").unwrap().is_admitted()).count()
}

/// The mode that a monitor shows, the refusals that were not carried out, and those that were.
fn shown(rules: &Rules<ManualClock>) -> (Mode, u64, u64) {
    let watched = rules.registry().watched();
    let [one] = &watched[..] else { panic!("one rule") };
    let WatchedState::Shadow { mode, counts, .. } = &one.state else { panic!("{:?}", one.state) };
    (*mode, counts.would_refuse, counts.enforced)
}

#[test]
fn shadow_counts_what_it_would_refuse() {
    for limiter in [
        "limit = \"3 per hour\"",
        "limit = \"3 per hour, bursts of 3\"",
        "key = \"client\"\nlimit = \"3 per hour, bursts of 3\"",
        "key = \"client\"\nlimit = \"3 per hour\"",
    ] {
        let rules = rules();
        apply(&rules, &format!("{limiter}\nmode = \"shadow\""));
        assert_eq!(admitted(&rules, 10), 10, "{limiter}");
        assert_eq!(shown(&rules), (Mode::Shadow, 7, 0), "{limiter}");
        // Its state is that of a limit that is enforced.
        apply(&rules, limiter);
        assert_eq!(admitted(&rules, 10), 0, "{limiter}");
        let watched = &rules.registry().watched()[0].state;
        assert!(!matches!(watched, WatchedState::Shadow { .. }), "{watched:?}");
        // The counts go on.
        apply(&rules, &format!("{limiter}\nmode = \"enforce for 50 % of requests\""));
        assert_eq!(admitted(&rules, 10), 5, "{limiter}");
        let (_, would_refuse, enforced) = shown(&rules);
        assert_eq!((would_refuse, enforced), (12, 5));
    }
}

#[test]
fn share_of_keys_is_refused_and_the_others_are_not() {
    let rules = rules();
    apply(&rules, "key = \"client\"\nin_flight = 0\nmode = \"enforce for 10 % of keys\"");
    let names = (0..1_000).map(|number| format!("client-{number}"));
    let refused = names.filter(|name| rules.enter("a", &**name).unwrap().is_refused()).count();
    assert!((80..120).contains(&refused), "a tenth of the clients: {refused}");
    let (_, would_refuse, enforced) = shown(&rules);
    assert_eq!((would_refuse + enforced, enforced), (1_000, refused as u64));
}

#[test]
fn rule_that_is_off_is_not_asked() {
    let rules = rules();
    apply(&rules, "limit = \"3 per hour\"\nmode = \"off\"");
    assert_eq!(admitted(&rules, 10), 10);
    assert_eq!(shown(&rules), (Mode::Off, 0, 0));
    apply(&rules, "limit = \"3 per hour\"");
    assert_eq!(admitted(&rules, 10), 3);
}

#[test]
fn quota_of_a_shadow_is_no_clients_business() {
    use leaparray::flow::Limiter;
    let rules = rules();
    let resource = rules.registry().resource("a").unwrap();
    let quotas = |mode: &str| {
        apply(&rules, &format!("limit = \"3 per hour\"\nmode = \"{mode}\""));
        let mut quotas = 0;
        let limiter = rules.limiter(&resource, &());
        limiter.account().each_quota(Timestamp::from_secs(3_600), &mut |_| quotas += 1);
        quotas
    };
    assert_eq!(["enforce", "shadow", "off"].map(quotas), [1, 0, 0]);
}
