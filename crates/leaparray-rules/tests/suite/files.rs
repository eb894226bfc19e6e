//! Files of rules: their contents, and the errors in them.

use std::time::Duration;

use leaparray::flow::shadow::{Mode, Share};
use leaparray_rules::{Counted, Failures, KeySource, Limit, Per, Percent, Rule, RuleSet, Traffic};

/// Reads one rule, from its lines after the name and the resource.
fn rule(lines: &str) -> Rule {
    let text = format!("[[rule]]\nname = \"a\"\nresource = \"GET /a\"\n{lines}");
    let set = RuleSet::parse(&text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    let [rule] = set.rules() else { panic!("{text}") };
    rule.clone()
}

/// Returns the problems of a text.
fn problems(text: &str) -> String {
    RuleSet::parse(text).expect_err(text).in_source("f").to_string()
}

/// Returns the problems of one rule.
fn problems_of(lines: &str) -> String {
    problems(&format!("[[rule]]\nname = \"a\"\nresource = \"GET /a\"\n{lines}"))
}

const fn per(count: u64, seconds: u64) -> Per {
    Per { count, interval: Duration::from_secs(seconds) }
}

#[test]
fn each_limiter_is_read_with_its_numbers() {
    let limit = |lines| rule(lines).limit;
    let window = limit("limit = \"1_000 per second\"");
    assert!(matches!(window, Limit::Window { rate, buckets: None, .. } if rate == per(1_000, 1)));
    let window = limit("limit = \"5 per 10s\"\nbuckets = 2");
    assert!(matches!(window, Limit::Window { rate, buckets: Some(2), .. } if rate == per(5, 10)));
    let bucket = limit("limit = \"50 per minute, bursts of 10\"");
    assert!(
        matches!(bucket, Limit::Bucket { rate, burst: 10, starts_empty: false, .. } if rate == per(50, 60))
    );
    for (lines, is_empty) in [
        ("limit = \"5 per day, bursts of 2\"\nstarts = \"empty\"", true),
        ("limit = \"5 per day, bursts of 2\"\nstarts = \"full\"", false),
    ] {
        let Limit::Bucket { starts_empty, .. } = limit(lines) else { panic!("a bucket") };
        assert_eq!(starts_empty, is_empty);
    }
    let warm_up = limit("limit = \"90 per second\"\nwarm_up = \"30s\"\ncold_factor = 9");
    assert!(matches!(
        warm_up,
        Limit::WarmUp { rate, buckets: 10, period, cold_factor: 9.0, .. }
            if rate == per(90, 1) && period == Duration::from_secs(30)
    ));
    let pace = limit("pace = \"100 per second\"\nmax_wait = \"1m 30s\"");
    assert!(matches!(
        pace,
        Limit::Pace { rate, max_wait, .. } if rate == per(100, 1) && max_wait == Duration::from_secs(90)
    ));
    assert!(matches!(limit("in_flight = 64"), Limit::InFlight { limit: 64, .. }));
    assert!(matches!(
        limit("in_flight = \"adaptive\""),
        Limit::AdaptiveInFlight { min: 1, first: 20, max: 10_000, .. }
    ));
    assert!(matches!(
        limit("in_flight = { max = 8 }"),
        Limit::AdaptiveInFlight { min: 1, first: 8, max: 8, .. }
    ));
    assert!(matches!(
        limit("breaker = { k = 2.5 }"),
        Limit::AdaptiveBreaker { k: 2.5, min_requests: 5, .. }
    ));
    assert!(matches!(limit("breaker = { k = 0x10 }"), Limit::AdaptiveBreaker { k: 16.0, .. }));
    assert_eq!(limit("breaker = \"adaptive\""), limit("breaker = { k = 1.5 }"));
}

#[test]
fn each_breaker_is_read_with_its_numbers() {
    let breaker = |lines: &str| match rule(&format!("breaker = {{ {lines} }}")).limit {
        Limit::Breaker(breaker) => breaker,
        other => panic!("{other:?}"),
    };
    let seconds = Duration::from_secs;
    let share = breaker("failures = \"12.5% of 8\", wait = \"1s, doubling up to 1m\"");
    assert_eq!(
        (share.failures, share.min_calls),
        (Some(Failures::Share(Percent::AtLeast(12.5))), 8)
    );
    assert_eq!((share.wait, share.max_wait), (seconds(1), Some(seconds(60))));
    let number = breaker("failures = 7, within = \"30s\", probes = 1");
    assert_eq!((number.failures, number.probes), (Some(Failures::Number(7)), 1));
    let within =
        |it| matches!(it, Counted::Within { interval, buckets: 10, .. } if interval == seconds(30));
    assert!(within(number.counted));
    let row = breaker("failures = \"5 in a row\", last_calls = 100");
    assert_eq!((row.failures, row.counted), (Some(Failures::InRow(5)), Counted::Last(100)));
    let slow = breaker("slow = \"80 % of 30 above 2s\"");
    assert_eq!((slow.failures, slow.slow), (None, Some((Percent::AtLeast(80.0), seconds(2)))));
    assert_eq!((slow.min_calls, slow.wait), (30, seconds(5)));
}

#[test]
fn resources_keys_and_modes_are_read() {
    let of = |line: &str| {
        let text = format!("[[rule]]\nname = \"a\"\nin_flight = 1\n{line}\n");
        RuleSet::parse(&text).unwrap_or_else(|it| panic!("{it}")).rules()[0].clone()
    };
    let outbound = of("outbound = [\"payments.internal\", \"*.example.com\"]");
    assert_eq!((outbound.traffic, outbound.resources.len()), (Traffic::Outbound, 2));
    let key = |key: &str| of(&format!("resource = \"a\"\nkey = \"{key}\"")).key;
    assert_eq!(key("header:X-Api-Key"), Some(KeySource::Header("x-api-key".into())));
    assert_eq!(key("client"), Some(KeySource::Client { v4: 32, v6: 64 }));
    assert_eq!(key("client/24"), Some(KeySource::Client { v4: 24, v6: 64 }));
    assert_eq!(key("client/24/48"), Some(KeySource::Client { v4: 24, v6: 48 }));
    assert_eq!(key("resource"), Some(KeySource::Resource));
    assert_eq!(key("extension:tenant"), Some(KeySource::Extension("tenant".into())));
    let mode =
        |mode: &str| of(&format!("resource = \"a\"\nkey = \"client\"\nmode = \"{mode}\"")).mode;
    let share = |parts| Share::per_million(parts).unwrap();
    assert_eq!(mode("shadow"), Mode::Shadow);
    assert_eq!(mode("enforce for 2.5 % of requests"), Mode::Requests(share(25_000)));
    assert_eq!(mode("enforce for 10% of keys"), Mode::Keys(share(100_000)));
    let off = of("resource = \"a\"\nmode = \"off\"");
    assert_eq!((off.mode, off.max_keys), (Mode::Off, Rule::DEFAULT_MAX_KEYS));
    assert_eq!(of("resource = \"a\"\nkey = \"client\"\nmax_keys = 7").max_keys, 7);
}

#[test]
fn text_that_says_nothing_is_no_set_of_rules() {
    assert_eq!(RuleSet::parse("rule = []"), Ok(RuleSet::default()));
    for text in ["", "# nothing\n"] {
        let expected = "f:1: lacks rules, of which `rule = []` says that there are none; write \
                        `[[rule]]`";
        assert_eq!(problems(text), expected, "{text:?}");
    }
}

#[test]
fn all_problems_of_a_file_are_told_with_their_lines() {
    let text = "\
# Limits of the shop.
rules = 1

[[rule]]
name = \"orders\"
resource = \"GET /orders\"
limit = \"1000 per sec\"
mode = \"on\"

[[rule]]
name = \"orders\"
outbound = 7
in_flight = -1

[[rule]]
resource = \"/api/*\"
key = \"header:x api key\"
";
    assert_eq!(
        problems(text),
        "\
f:2: rules: unknown key; did you mean `rule`?
f:7: rule \"orders\": limit: \"sec\" is no interval; write a rate such as \"1000 per second\", \
\"5 per 10s\" or \"50 per minute, bursts of 10\"
f:8: rule \"orders\": mode: \"on\" is no mode; write \"enforce\", \"shadow\", \"off\", \
\"enforce for 10 % of requests\" or \"enforce for 10 % of keys\"
f:11: rule \"orders\": name: the rule of line 4 has this name; each needs a name of its own
f:12: rule \"orders\": outbound: is an integer; write a name such as \"GET /orders\", a pattern \
such as \"/api/*\", or a list of them
f:13: rule \"orders\": in_flight: -1 is out of range; write a number, \"adaptive\", or a table \
such as { min = 1, first = 20, max = 10000 }
f:15: lacks a name; write `name`
f:15: lacks a limiter; write one of `limit`, `pace`, `in_flight`, `breaker`, `refuse`
f:17: key: \"x api key\" is no name of a header; write \"client\", \"client/24\", \"resource\", \
\"context\", \"header:NAME\" or \"extension:NAME\"",
    );
}

#[test]
fn text_that_is_no_toml_is_told_with_its_line() {
    let message = problems("[[rule]]\nname = \"a\"\nlimit = \"1 per second\nmode = \"off\"\n");
    assert!(message.starts_with("f:3: no TOML: "), "{message}");
    for (second, line) in [("name = \"b\"", 3), ("\nname=5", 4)] {
        assert_eq!(
            problems(&format!("[[rule]]\nname = \"a\"\n{second}\n")),
            format!("f:{line}: no TOML: `name` is in its table twice; remove one of them"),
        );
    }
    assert!(problems("rule = 7").starts_with("f:1: rule: is an integer; write a table"));
    assert_eq!(problems("rule = [7]"), "f:1: rule: is an integer; write a table");
}

/// Asserts the message for each rule with the lines.
fn assert_problems(cases: &[(&str, String)]) {
    for (lines, expected) in cases {
        let message = problems_of(lines);
        let (line, message) = message.split_once(": rule \"a\": ").expect("each names the rule");
        assert_eq!(message, expected, "{lines}");
        assert!(line.starts_with("f:"), "{line}");
    }
}

#[test]
fn each_problem_says_what_would_be_right() {
    let rate =
        "a rate such as \"1000 per second\", \"5 per 10s\" or \"50 per minute, bursts of 10\"";
    let time = "a time such as \"500ms\", \"30s\" or \"1m 30s\"";
    let cases = [
        ("limit = \"1000/s\"", format!("limit: \"1000/s\" is no rate; write {rate}")),
        ("limit = \"-1 per day\"", format!("limit: \"-1\" is no whole number; write {rate}")),
        ("limit = \"1,000 per day\"", format!("limit: \"1,000\" is no whole number; write {rate}")),
        ("limit = \"1.5 per day\"", format!("limit: \"1.5\" is no whole number; write {rate}")),
        (
            "limit = \"5 per day, burst 3\"",
            format!("limit: \"burst 3\" is no size of bursts; write {rate}"),
        ),
        ("limit = 5", format!("limit: is an integer; write {rate}")),
        ("limit = \"5 per 0s\"", format!("limit: \"0s\" is no interval; write {rate}")),
        (
            "limit = \"9_999_999_999 per second\"",
            "limit: a limit of 9999999999 is above 4194303, the highest with buckets of 20ms"
                .to_owned(),
        ),
        (
            "limit = \"0 per second, bursts of 2\"",
            "limit: a rate needs at least one permit in 1s, not 0".to_owned(),
        ),
        (
            "limit = \"0 per second\"\nwarm_up = \"3s\"",
            "limit: a limit of 0 has nothing to warm up to".to_owned(),
        ),
        (
            "limit = \"5 per second\"\npace = \"5 per second\"\nmax_wait = \"1s\"",
            "pace: cannot stand beside `limit`; remove one of them".to_owned(),
        ),
        (
            "limit = \"5 per second, bursts of 2\"\nbuckets = 2",
            "buckets: cannot stand beside `bursts of`; remove one of them".to_owned(),
        ),
        (
            "in_flight = 1\nbuckets = 2",
            "buckets: has no meaning without `limit`; add that, or remove this key".to_owned(),
        ),
        (
            "limit = \"5 per second\"\ncold_factor = 2",
            "cold_factor: has no meaning without `warm_up`; add that, or remove this key"
                .to_owned(),
        ),
        (
            "in_flight = 1\nmode = \"enforce for 5 % of keys\"",
            "mode: has no meaning without `key`; add that, or remove this key".to_owned(),
        ),
        (
            "in_flight = 1\nmax_keys = 2",
            "max_keys: has no meaning without `key`; add that, or remove this key".to_owned(),
        ),
        (
            "in_flight = 1\nkey = \"client\"\nmax_keys = 0",
            "max_keys: is out of range; write a number of keys from 1 to 1073741824".to_owned(),
        ),
        (
            "pace = \"5 per second\"",
            "lacks the longest time for which a request waits; write `max_wait`".to_owned(),
        ),
        (
            "pace = \"5 per second\"\nmax_wait = \"long\"",
            format!("max_wait: \"long\" is no time; write {time}"),
        ),
        (
            "in_flight = \"few\"",
            "in_flight: \"few\" has no meaning; write a number, \"adaptive\", or a table such as \
             { min = 1, first = 20, max = 10000 }"
                .to_owned(),
        ),
        (
            "in_flight = { least = 3 }",
            "in_flight.least: unknown key; the keys are `min`, `first`, `max`".to_owned(),
        ),
        (
            "in_flight = { min = 9, max = 3 }",
            "in_flight: limits are 1 <= lowest <= first <= highest <= 16777215, not 9, 9, 3"
                .to_owned(),
        ),
        (
            "in_flight = 1\nkey = \"client/33\"",
            "key: \"33\" is no number of bits from 1 to 32; write \"client\", \"client/24\", \
             \"resource\", \"context\", \"header:NAME\" or \"extension:NAME\""
                .to_owned(),
        ),
        (
            "in_flight = 1\nkey = \"cookie\"",
            "key: \"cookie\" is no key; write \"client\", \"client/24\", \"resource\", \
             \"context\", \"header:NAME\" or \"extension:NAME\""
                .to_owned(),
        ),
        (
            "in_flight = 1\noutbound = \"x\"",
            "outbound: cannot stand beside `resource`; remove one of them".to_owned(),
        ),
    ];
    assert_problems(&cases);
}

#[test]
fn each_problem_of_the_start_of_a_bucket_says_what_would_be_right() {
    let cases = [
        (
            "limit = \"5 per second, bursts of 2\"\nstarts = \"cold\"",
            "starts: \"cold\" has no meaning; write \"empty\" or \"full\"".to_owned(),
        ),
        (
            "limit = \"5 per second\"\nstarts = \"empty\"",
            "starts: has no meaning without `bursts of`; add that, or remove this key".to_owned(),
        ),
        (
            "limit = \"5 per second, bursts of 2\"\nstarts = \"empty\"\nkey = \"client\"",
            "starts: cannot stand beside `key`; remove one of them".to_owned(),
        ),
    ];
    assert_problems(&cases);
}

#[test]
fn each_problem_of_a_breaker_says_what_would_be_right() {
    let breaker = "\"adaptive\", or a table such as { failures = \"50 % of 20\", wait = \"5s\" }";
    let wait = "a time such as \"5s\", or one that grows, such as \"1s, doubling up to 1m\"";
    let cases = [
        ("breaker = true", format!("breaker: is a boolean; write {breaker}")),
        (
            "breaker = { wait = \"5s\" }",
            "breaker: lacks what opens it; write one of `failures`, `slow`".to_owned(),
        ),
        (
            "breaker = { failure = \"50 % of 20\" }",
            "breaker.failure: unknown key; did you mean `failures`?\nf:4: rule \"a\": breaker: lacks \
             what opens it; write one of `failures`, `slow`"
                .to_owned(),
        ),
        (
            "breaker = { failures = 0 }",
            "breaker.failures: 0 is out of range; write a share such as \"50 % of 20\", a number, \
             or \"5 in a row\""
                .to_owned(),
        ),
        (
            "breaker = { failures = \"0 in a row\" }",
            "breaker.failures: \"0 in a row\" is no number of failures; write a share such as \
             \"50 % of 20\", a number, or \"5 in a row\""
                .to_owned(),
        ),
        (
            "breaker = { failures = \"150 % of 20\" }",
            "breaker.failures: \"150 %\" is no share from 0 % to 100 %; write a share such as \
             \"50 % of 20\", a number, or \"5 in a row\""
                .to_owned(),
        ),
        (
            "breaker = { failures = \"5 in a row\", wait = \"1s, growing\" }",
            format!("breaker.wait: \"growing\" is no growth; write {wait}"),
        ),
        (
            "breaker = { failures = \"50 % of 20\", slow = \"80 % of 30 above 1s\" }",
            "breaker.slow: counts from 30 calls on, and `failures` from 20 on; write the same \
             number of calls in both"
                .to_owned(),
        ),
        (
            "breaker = { failures = 3, within = \"1s\", last_calls = 3 }",
            "breaker.last_calls: cannot stand beside `within`; remove one of them".to_owned(),
        ),
    ];
    assert_problems(&cases);
}

#[test]
fn resource_that_is_no_name_is_told() {
    let right =
        "write a name such as \"GET /orders\", a pattern such as \"/api/*\", or a list of them";
    for (value, wrong) in [
        ("\"\"", "\"\" is no name"),
        ("[]", "names no resource"),
        ("[\"a\", 7]", "one of the list is an integer"),
        ("\"orders \"", "\"orders \" begins or ends with a space"),
    ] {
        let text = format!("[[rule]]\nname = \"a\"\nin_flight = 1\nresource = {value}");
        let expected = format!("f:4: rule \"a\": resource: {wrong}; {right}");
        assert_eq!(problems(&text), expected);
    }
    let text = "[[rule]]\nname = \"a\\u0007\"\nin_flight = 1\nresource = \"a\"";
    let expected = "f:2: rule \"a\\u{7}\": name: \"a\\u{7}\" is no name; write a name, which \
                    refusals and metrics show";
    assert_eq!(problems(text), expected);
}
