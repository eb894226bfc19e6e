//! The state of rules for Prometheus.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_rules::{Follow, Rules, RulesCollector};
use prometheus_client::encoding::text;

#[test]
fn state_of_the_rules_and_of_their_source_is_exposed_until_they_are_dropped() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let rules = Rules::new(Arc::new(registry));
    let (sender, texts) = channel::<&str>();
    let source = move || texts.try_recv().map(str::to_owned);
    let rule = "[[rule]]\nname = \"a\"\nresource = \"a\"\nin_flight = 1\n";
    (0..2).for_each(|_| sender.send(rule).unwrap());
    let (told, events) = channel();
    let follow = Follow::source("test", source).every(Duration::from_millis(1));
    let follow = follow.on_event(move |event| drop(told.send(event.clone())));
    rules.follow(follow).unwrap();
    let mut metrics = prometheus_client::registry::Registry::default();
    metrics.register_collector(Box::new(RulesCollector::new(&rules)));
    let encoded = || {
        let mut body = String::new();
        text::encode(&mut body, &metrics).unwrap();
        body
    };
    let _held = rules.try_enter("a", ()).unwrap();
    rules.try_enter("a", ()).unwrap_err();
    // It is away: no more texts come.
    events.recv_timeout(Duration::from_secs(20)).unwrap();
    let body = encoded();
    for sample in [
        "leaparray_rules_in_force 1\n",
        "leaparray_rules_applied_total 1\n",
        "leaparray_rules_refused_total{rule=\"a\"} 1\n",
        "leaparray_rules_source_state{source=\"test\",state=\"good\"} 0\n",
        "leaparray_rules_source_state{source=\"test\",state=\"away\"} 1\n",
        "leaparray_rules_source_state{source=\"test\",state=\"wrong\"} 0\n",
        "leaparray_rules_source_age_seconds{source=\"test\"} 0\n",
    ] {
        assert!(body.replace(".0\n", "\n").contains(sample), "{sample} in {body}");
    }
    let count = |name: &str| {
        let line = body.lines().find(|it| it.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let failures = count("leaparray_rules_source_failures_total{");
    assert!(failures >= 2 && count("leaparray_rules_source_readings_total{") >= failures, "{body}");
    drop(rules);
    drop(sender);
    // The thread that follows the source may have a handle in the middle of a turn. It drops the
    // function for events when it ends.
    while events.recv_timeout(Duration::from_secs(20)).is_ok() {}
    assert!(!encoded().contains("leaparray"));
}
