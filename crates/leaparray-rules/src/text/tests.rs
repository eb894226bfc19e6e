//! The JSON schema says what the parser reads.

use serde_json::Value;

use super::*;

fn schema() -> Value {
    serde_json::from_str(RuleSet::SCHEMA).unwrap()
}

#[test]
fn schema_has_the_keys_of_the_parser_and_no_others() {
    let schema = schema();
    for (definition, keys) in [
        ("rule", KEYS),
        ("away", fleet::AWAY_KEYS),
        ("in_flight", limiter::IN_FLIGHT_KEYS),
        ("circuit", limiter::CIRCUIT),
        ("adaptive", limiter::ADAPTIVE),
    ] {
        let properties = schema["definitions"][definition]["properties"].as_object().unwrap();
        let mut known: Vec<_> = properties.keys().map(String::as_str).collect();
        let mut keys = keys.to_vec();
        known.sort_unstable();
        keys.sort_unstable();
        assert_eq!(known, keys, "{definition}");
    }
}

/// The keys that a rule needs beside a key.
fn beside(key: &str) -> &'static [(&'static str, &'static str)] {
    match key {
        "limit" | "pace" | "in_flight" | "breaker" | "refuse" => &[],
        "max_keys" => &[("key", "\"client\""), ("limit", "\"5 per second\"")],
        "cold_factor" => &[("warm_up", "\"30s\""), ("limit", "\"5 per second\"")],
        "priority" => &[("in_flight", "9"), ("shares", "{ a = \"100 %\" }")],
        "shares" => &[("in_flight", "9"), ("priority", "\"context\"")],
        "tenant" => &[("in_flight", "9")],
        "weights" => &[("in_flight", "9"), ("tenant", "\"context\"")],
        "starts" => &[("limit", "\"5 per second, bursts of 9\"")],
        "max_wait" => &[("pace", "\"5 per second\"")],
        _ => &[("limit", "\"5 per second\"")],
    }
}

fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, it)| format!("{key:?} = {}", toml(it)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

#[test]
fn examples_of_the_schema_are_good() {
    let schema = schema();
    let properties = schema["definitions"]["rule"]["properties"].as_object().unwrap();
    let mut examples = 0;
    for (key, property) in properties {
        for example in property["examples"].as_array().into_iter().flatten() {
            let mut text = format!("[[rule]]\nname = \"a\"\n{key} = {}\n", toml(example));
            if !["resource", "outbound", "either"].contains(&&**key) {
                text += "resource = \"a\"\n";
            }
            if key == "pace" {
                text += "max_wait = \"1s\"\n";
            }
            for (key, value) in beside(key) {
                text.extend([key, " = ", value, "\n"]);
            }
            RuleSet::parse(&text).unwrap_or_else(|problems| panic!("{text}{problems}"));
            examples += 1;
        }
    }
    assert!(examples > 30, "{examples}");
}

/// A rule with each number that the schema describes, by the place of its description. `#` is
/// the number, and `@` twice as much.
const NUMBERS: &[(&str, &str)] = &[
    ("rule/max_keys", "key = \"client\"\nlimit = \"5 per second\"\nmax_keys = #"),
    ("rule/tenant/max_keys", "tenant = \"client\"\nin_flight = 5\nmax_keys = #"),
    ("rule/weights", "tenant = \"client\"\nin_flight = 5\nweights = { a = # }"),
    ("rule/buckets", "limit = \"5 per @us\"\nbuckets = #"),
    ("rule/cold_factor", "limit = \"5 per second\"\nwarm_up = \"30s\"\ncold_factor = #"),
    ("rule/in_flight/0", "in_flight = #"),
    ("in_flight/min", "in_flight = { min = #, first = #, max = # }"),
    ("in_flight/first", "in_flight = { min = #, first = #, max = # }"),
    ("in_flight/max", "in_flight = { min = #, first = #, max = # }"),
    #[cfg(feature = "fleet")]
    (
        "away/part",
        "limit = \"1099511627776 per day\"\nover = \"fleet\"\naway = { part = #, processes = 1 }",
    ),
    #[cfg(feature = "fleet")]
    (
        "away/processes",
        "limit = \"1099511627776 per day\"\nover = \"fleet\"\naway = { part = 0.5, processes = # }",
    ),
    ("circuit/failures/1", "breaker = { failures = # }"),
    ("circuit/buckets", "breaker = { failures = 1, within = \"@us\", buckets = # }"),
    ("circuit/last_calls", "breaker = { failures = 1, last_calls = # }"),
    ("circuit/probes", "breaker = { failures = 1, probes = # }"),
    ("adaptive/k", "breaker = { k = # }"),
    ("adaptive/min_requests", "breaker = { min_requests = # }"),
];

/// Adds the descriptions of numbers below one, by their places.
fn numbers<'a>(of: &'a Value, place: &str, found: &mut Vec<(String, &'a Value)>) {
    if ["integer", "number"].iter().any(|it| of["type"] == *it) {
        found.push((place.to_owned(), of));
    }
    if let Some(others) = of.get("additionalProperties").filter(|it| it.is_object()) {
        numbers(others, place, found);
    }
    for (number, either) in of["anyOf"].as_array().into_iter().flatten().enumerate() {
        numbers(either, &format!("{place}/{number}"), found);
    }
    for (key, property) in of["properties"].as_object().into_iter().flatten() {
        numbers(property, &format!("{place}/{key}"), found);
    }
}

/// Returns whole numbers, each with whether the schema allows it.
fn whole(number: &Value) -> Vec<(String, bool)> {
    let bound = |key: &str, other| number.get(key).map_or(other, |it| it.as_i64().unwrap());
    // TOML has no greater numbers.
    let (min, max) = (bound("minimum", i64::MIN), bound("maximum", i64::MAX));
    let powers = (0..63).map(|it| 1_i64 << it);
    let values = powers
        .chain([i64::MIN, 0, min, max, i64::MAX])
        .flat_map(|it| [it.saturating_sub(1), it, it.saturating_add(1)]);
    values.map(|it| (it.to_string(), (min..=max).contains(&it))).collect()
}

/// Returns numbers, each with whether the schema allows it.
fn real(number: &Value) -> Vec<(String, bool)> {
    let bound = |key: &str| number[key].as_f64();
    let is_allowed = |it: f64| {
        bound("minimum").is_none_or(|min| it >= min)
            && bound("maximum").is_none_or(|max| it <= max)
            && bound("exclusiveMinimum").is_none_or(|min| it > min)
            && bound("exclusiveMaximum").is_none_or(|max| it < max)
    };
    let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"].map(bound);
    let powers = (-30..60).map(|it| 2_f64.powi(it));
    let values = powers.chain(bounds.into_iter().flatten()).chain([0.0, f64::MAX]);
    let values = values.flat_map(|it| [it * (1.0 - 1e-6), it, it * (1.0 + 1e-6), -it]);
    let finite = values.filter(|it| it.is_finite());
    let mut values: Vec<_> = finite.map(|it| (format!("{it:?}"), is_allowed(it))).collect();
    values.extend(["inf", "-inf", "nan"].map(|it| (it.to_owned(), false)));
    values
}

/// Each number that the schema allows is good, and no other: at both sides of its bounds, and
/// of each power of two.
#[test]
fn numbers_of_the_schema_are_those_of_the_parser() {
    let schema = schema();
    let (mut found, mut differences, mut tried) = (Vec::new(), Vec::new(), 0);
    for (name, definition) in schema["definitions"].as_object().unwrap() {
        numbers(definition, name, &mut found);
    }
    let with_tenant = &schema["definitions"]["rule"]["dependencies"]["tenant"];
    found.push(("rule/tenant/max_keys".into(), &with_tenant["properties"]["max_keys"]));
    for (place, number) in found {
        let Some((_, rule)) = NUMBERS.iter().find(|(of, _)| *of == place) else {
            assert!(place.starts_with("away/") && !cfg!(feature = "fleet"), "{place}");
            continue;
        };
        let is_good = |number: &str| {
            let text = format!("[[rule]]\nname = \"a\"\nresource = \"a\"\n{rule}\n");
            let twice = number.parse().map_or(1, |it: i64| it.saturating_mul(2).max(1));
            RuleSet::parse(&text.replace('#', number).replace('@', &twice.to_string())).is_ok()
        };
        let values = if number["type"] == "integer" { whole(number) } else { real(number) };
        for (value, is_allowed) in values {
            if is_good(&value) != is_allowed {
                differences.push(format!("{place}: {value}, by the schema {is_allowed}"));
            }
            tried += 1;
        }
    }
    assert_eq!(differences, Vec::<String>::new(), "of {tried}");
    assert!(tried > 1_000, "{tried}");
}
