//! Names that are refused, for resources and contexts alike.

use leaparray::registry::RegistryError;
use leaparray::{RegistryConfig, TrafficType};

use crate::registry::{registry, registry_of};

/// Names that are empty, or contain a control character or a line break.
const INVALID: [&str; 9] =
    ["", "\n", "a\nb", "a\r", "\tb", "a\0b", "a\u{7f}", "a\u{85}b", "a\u{2028}\u{2029}"];

/// Unusual names that are allowed.
const VALID: [&str; 7] = [" ", "|", "a|b", "GET /Bücher/*", "a\u{a0}b", "日本", "\"\\n\""];

fn invalid(name: &str) -> RegistryError {
    RegistryError::InvalidName { name: name.into() }
}

#[test]
fn invalid_name_of_a_resource_is_refused_and_counted() {
    let (registry, _) = registry();
    for (before, name) in (0..).zip(INVALID) {
        assert_eq!(registry.resource(name).unwrap_err(), invalid(name));
        let outbound = registry.resource_with(name, TrafficType::Outbound);
        assert_eq!(outbound.unwrap_err(), invalid(name));
        assert!(registry.get(name).is_none() && !registry.remove(name));
        assert_eq!((registry.len(), registry.refused()), (0, 2 * (before + 1)));
    }
    for name in VALID {
        assert_eq!(registry.resource(name).unwrap().name(), name);
    }
    assert_eq!((registry.len(), registry.refused()), (VALID.len(), 2 * INVALID.len() as u64));
}

#[test]
fn invalid_name_of_a_context_is_refused_and_counted() {
    let (registry, _) = registry();
    let orders = registry.resource("orders").unwrap();
    for (before, name) in (0..).zip(INVALID) {
        assert_eq!(orders.in_context(name).unwrap_err(), invalid(name));
        assert_eq!((orders.contexts().count(), registry.refused()), (0, before + 1));
    }
    for name in VALID {
        assert_eq!(orders.in_context(name).unwrap().context(), Some(name));
    }
}

#[test]
fn invalid_name_is_the_error_also_if_there_is_no_room() {
    let (registry, _) = registry_of(RegistryConfig::default().max_resources(1).max_contexts(0));
    let orders = registry.resource("orders").unwrap();
    assert_eq!(registry.resource("").unwrap_err(), invalid(""));
    assert_eq!(orders.in_context("").unwrap_err(), invalid(""));
    assert_eq!(registry.refused(), 2);
}

#[test]
fn error_says_what_is_wrong_with_a_name() {
    for (name, text) in [
        ("", r#"the name "" is empty, but needs at least one character"#),
        (
            "a\nb\t",
            r#"the name "a\nb\t" contains '\n', but must not contain control characters or line breaks"#,
        ),
        (
            "a\u{2029}",
            r#"the name "a\u{2029}" contains '\u{2029}', but must not contain control characters or line breaks"#,
        ),
    ] {
        assert_eq!(invalid(name).to_string(), text);
    }
}
