//! Rules that are printed are read as the same rules.

use leaparray_rules::{Per, RuleSet};
use proptest::prelude::*;

/// Returns a time, as a file has it.
fn time() -> impl Strategy<Value = String> {
    prop_oneof![
        (1_u64..2_000).prop_map(|it| format!("{it}ms")),
        (1_u64..100_000).prop_map(|it| format!("{it}s")),
        (1_u64..50, 1_u64..60).prop_map(|(hours, seconds)| format!("{hours}h {seconds}s")),
        (1_u64..400).prop_map(|it| format!("{it} days")),
    ]
}

fn rate() -> impl Strategy<Value = String> {
    let interval = prop_oneof![
        prop::sample::select(vec!["second", "minute", "hour", "day"]).prop_map(str::to_owned),
        time(),
    ];
    (1_u64..1_000, interval).prop_map(|(count, interval)| format!("{count} per {interval}"))
}

fn share() -> impl Strategy<Value = String> {
    (1_u32..=1_000, 1_u64..50)
        .prop_map(|(tenths, of)| format!("{} % of {of}", f64::from(tenths) / 10.0))
}

fn breaker() -> impl Strategy<Value = String> {
    let failures = prop_oneof![
        share().prop_map(|it| format!("failures = \"{it}\"")),
        share().prop_map(|it| format!("failures = \"above {it}\"")),
        (share(), time()).prop_map(|(it, time)| format!("slow = \"above {it} above {time}\"")),
        (1_u64..100).prop_map(|it| format!("failures = {it}")),
        (1_u64..100).prop_map(|it| format!("failures = \"{it} in a row\"")),
        (share(), time()).prop_map(|(share, time)| format!("slow = \"{share} above {time}\"")),
    ];
    let counted = prop_oneof![
        Just(String::new()),
        (1_u64..100).prop_map(|it| format!(", within = \"{it}s\"")),
        Just(", within = \"6s\", buckets = 2".to_owned()),
        (1_u64..1_000).prop_map(|it| format!(", last_calls = {it}")),
    ];
    let wait = prop_oneof![
        Just(String::new()),
        time().prop_map(|it| format!(", wait = \"{it}\"")),
        Just(", wait = \"1s, doubling up to 1m\", probes = 9".to_owned()),
    ];
    (failures, counted, wait).prop_map(|(a, b, c)| format!("breaker = {{ {a}{b}{c} }}"))
}

fn limiter() -> impl Strategy<Value = String> {
    let factor = (11_u32..200).prop_map(|it| f64::from(it) / 10.0);
    prop_oneof![
        rate().prop_map(|it| format!("limit = \"{it}\"")),
        (rate(), 0_u64..1_000).prop_map(|(rate, n)| format!("limit = \"{rate}, bursts of {n}\"")),
        rate().prop_map(|it| format!("limit = \"{it}\"\nbuckets = 2")),
        (rate(), time(), factor).prop_map(|(rate, time, factor)| {
            format!("limit = \"{rate}\"\nwarm_up = \"{time}\"\ncold_factor = {factor:?}")
        }),
        (rate(), time()).prop_map(|(rate, it)| format!("pace = \"{rate}\"\nmax_wait = \"{it}\"")),
        (0_u64..1_000).prop_map(|it| format!("in_flight = {it}")),
        Just("in_flight = { min = 2, first = 3, max = 4 }".to_owned()),
        Just("refuse = \"from 5 per second at a \\\"b\\\"\"".to_owned()),
        Just(
            "in_flight = 9\npriority = \"header:A\"\nshares = { b = \"2.5 %\", \"*\" = \"100 %\" }"
                .to_owned()
        ),
        Just("in_flight = 9\ntenant = \"header:A\"\nweights = { b = 2, \"*\" = 3 }".to_owned()),
        Just("in_flight = 9\ntenant = \"client\"\nmax_keys = 7".to_owned()),
        Just("breaker = { k = 2.25, min_requests = 7 }".to_owned()),
        breaker(),
    ]
}

fn scope() -> impl Strategy<Value = String> {
    let text = "[!-~]([ -~]{0,3}[!-~])?";
    let resource = prop_oneof![
        text.prop_map(|it| format!("resource = {it:?}")),
        prop::collection::vec(text, 1..4).prop_map(|it| format!("outbound = {it:?}")),
        text.prop_map(|it| format!("either = {it:?}")),
    ];
    let key = prop_oneof![
        Just(""),
        Just("key = \"header:X-Api-Key\""),
        Just("key = \"client/20/48\"\nmax_keys = 7"),
        Just("key = \"client/20\""),
        Just("key = \"context\"\nonly = { \"context\" = [\"a\", \"b\"] }"),
        Just("only = { \"client/20\" = \"*\" }\nexcept = { \"header:a\" = [\"c\", \"b\\\"\"] }"),
        Just("mode = \"enforce for 2.5 % of requests\""),
        Just("key = \"resource\"\nmode = \"enforce for 33.3333 % of keys\""),
        Just("key = \"resource\"\nmode = \"off\""),
    ];
    (resource, key).prop_map(|(resource, key)| format!("{resource}\n{key}"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printed_rule_is_read_as_the_same(name in "[ -~é]{0,3}[!-~]", scope in scope(), limiter in limiter()) {
        let text = format!("[[rule]]\nname = {name:?}\n{scope}\n{limiter}\n");
        // An interval that its buckets do not divide is refused, as it should be.
        if let Ok(rules) = RuleSet::parse(&text.replace("\\'", "'")) {
            let printed = rules.rules()[0].to_string();
            let again = RuleSet::parse(&printed).unwrap_or_else(|it| panic!("{text}\n{printed}\n{it}"));
            prop_assert_eq!(again, rules, "{}", printed);
        }
    }

    #[test]
    fn printed_rate_is_read_as_the_same(text in rate()) {
        let rate: Per = text.parse().unwrap();
        prop_assert_eq!(rate.to_string().parse::<Per>(), Ok(rate));
    }

    #[test]
    fn no_text_panics(text in "[\\[\\]{}=\"a-z0-9 %,.\n]{0,60}") {
        let _ = RuleSet::parse(&text);
        let _ = RuleSet::parse(&format!("[[rule]]\nname = \"a\"\nresource = \"a\"\n{text}"));
        let _ = text.parse::<Per>();
    }
}
