//! No name of a resource breaks an exposition.

use std::sync::Arc;

use leaparray_prometheus::RegistryCollector;
use proptest::prelude::*;

use crate::{Samples, registry};

proptest! {
    // The parser takes some 10 ms for each.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn labels_are_the_names(names in prop::collection::btree_set("\\PC{1,20}|[\"\\\\ n{},=#]{1,8}", 1..8)) {
        let registry = registry();
        // The registry refuses some names: its rules, not those of the exposition.
        let listed: Vec<_> =
            names.iter().filter(|name| registry.resource(name).is_ok()).collect();
        for (number, name) in listed.iter().enumerate() {
            for _ in 0..=number {
                registry.resource(name).unwrap().enter().success();
            }
            let context = registry.resource(name).unwrap().in_context(name).unwrap();
            context.enter().success();
        }
        let samples = Samples::scrape(RegistryCollector::new(Arc::clone(&registry)));
        for (number, name) in listed.iter().enumerate() {
            let requests = f64::from(u32::try_from(number + 1).unwrap());
            prop_assert_eq!(samples.of_resource("leaparray_success", name), requests);
            let labels = [("resource", name.as_str()), ("context", name), ("kind", "inbound")];
            prop_assert_eq!(samples.number("leaparray_success", &labels), 1.0);
        }
    }
}

#[test]
fn names_are_escaped() {
    let registry = registry();
    let names = [r#"a"b"#, r"a\b", r"a\nb", r"\", r#"x"} 1"#, "a{b=\"c\"}", "ünï→☃", " ", "# EOF"];
    for name in names {
        registry.resource(name).unwrap().enter().success();
    }
    let samples = Samples::scrape(RegistryCollector::new(registry));
    for name in names {
        assert_eq!(samples.of_resource("leaparray_success", name), 1.0, "{name}");
    }
}
