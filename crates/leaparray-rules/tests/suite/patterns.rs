//! Which names a pattern matches, beside a regular expression.

use std::sync::Arc;

use leaparray::flow::LimiterExt;
use leaparray::{Registry, TrafficType};
use leaparray_rules::{Pattern, RuleSet, Rules};
use proptest::prelude::*;

/// Returns whether a pattern matches the whole of a name, by a regular expression.
fn oracle(pattern: &str, name: &str) -> bool {
    let literals = pattern.replace("{*", "{\u{1}");
    let literals: Vec<_> = literals.split('*').map(regex::escape).collect();
    let whole = format!("^{}$", literals.join("(?s:.*)").replace('\u{1}', "\\*"));
    regex::Regex::new(&whole).unwrap().is_match(name)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn pattern_matches_as_a_regular_expression(
        patterns in prop::collection::vec("[ab*{/é]{1,6}", 1..5),
        name in "[ab*{/é]{1,8}",
    ) {
        let rules = Rules::new(Arc::new(Registry::new()));
        let tables = patterns.iter().enumerate().map(|(index, pattern)| {
            format!("[[rule]]\nname = \"{index}\"\nresource = \"{pattern}\"\nin_flight = 9\n")
        });
        rules.apply(&RuleSet::parse(&tables.collect::<String>()).unwrap());
        let resource = rules.registry().resource(&name).unwrap();
        let found: Vec<_> = rules.limiter(&resource, &()).names().map(str::to_owned).collect();
        let expected = patterns.iter().enumerate().filter(|(_, it)| oracle(it, &name));
        let expected: Vec<_> = expected.map(|(index, _)| index.to_string()).collect();
        prop_assert_eq!(found, expected);
        for pattern in &patterns {
            prop_assert_eq!(Pattern::new(pattern).matches(&name), oracle(pattern, &name));
        }
    }
}

#[test]
fn path_matches_with_any_word_before_it() {
    for (pattern, name, expected) in [
        ("/api/*", "GET /api/orders", true),
        ("/api/*", "/api/orders", true),
        ("/api/orders", "DELETE /api/orders", true),
        ("GET /api/orders", "HEAD /api/orders", true),
        ("GET /*", "HEAD /api/orders", true),
        ("HEAD /api/orders", "GET /api/orders", false),
        ("/api/*", "GET x/api/orders", false),
        ("/api/*", "POST GET /api/orders", false),
        ("*/api/*", "POST GET /api/orders", true),
        ("GET /api/*", "POST /api/orders", false),
        ("GET /files/{*path}", "GET /files/{*path}", true),
        ("GET /files/{*path}", "GET /files/{path}", false),
        ("/files/*", "GET /files/{*path}", true),
        ("*", "", true),
    ] {
        assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} and {name}");
    }
}

#[test]
fn rules_concern_requests_of_their_direction() {
    let text = "[[rule]]\nname = \"in\"\nresource = \"*\"\nin_flight = 0\n\
                [[rule]]\nname = \"out\"\noutbound = \"*\"\nin_flight = 0";
    let rules = Rules::new(Arc::new(Registry::new()));
    rules.apply(&RuleSet::parse(text).unwrap());
    for (traffic, expected) in [(TrafficType::Inbound, "in"), (TrafficType::Outbound, "out")] {
        let resource = rules.registry().resource_with(expected, traffic).unwrap();
        let refusal = rules.limiter(&resource, &()).try_acquire().refusal().unwrap();
        assert_eq!(refusal.limiter(), Some(expected));
    }
}
