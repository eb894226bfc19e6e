//! Files of the reference server, and what is wrong with others.

use std::fmt::Write;

use leaparray_envoy::config::{Config, Metadata, Unit};

/// Returns the problems of a file.
fn problems(text: &str) -> Vec<String> {
    Config::from_yaml(text).expect_err(text).to_string().lines().map(str::to_owned).collect()
}

/// A file of one descriptor with these lines.
fn with(lines: &str) -> String {
    format!("domain: d\ndescriptors:\n  - key: k\n    {}", lines.replace('\n', "\n    "))
}

#[test]
fn all_keys_are_read() {
    let config = Config::from_yaml(
        r#"
---
domain: rl
descriptors:
  - key: source
    value: proxy
    value_to_metric: yes
    descriptors:
      - key: destination
        value: mock*
        share_threshold: true
        shadow_mode: true
        detailed_metric: true
        rate_limit: { unit: MINUTE, requests_per_unit: 1_000, name: mocks, replaces: [{ name: all }] }
  - key: 42
    quota_mode: true
    metadata: { model: "m", weight: 0.5, tags: [a, null, true] }
    rate_limit: &fast
      unit: week
      requests_per_unit: 0x10
  - key: same
    rate_limit: *fast
  - key: merged
    rate_limit: { <<: *fast, unit: month }
  - key: open
    rate_limit:
      unlimited: true
"#,
    )
    .unwrap();
    let [domain] = config.domains() else { panic!("one domain") };
    assert_eq!(&*domain.name, "rl");
    let [source, quota, same, merged, open] = domain.descriptors.as_slice() else { panic!() };
    assert_eq!((source.key.as_str(), source.value.as_str()), ("source", "proxy"));
    assert!(source.value_to_metric && source.rate_limit.is_none());
    let [mock] = source.descriptors.as_slice() else { panic!() };
    assert!(mock.share_threshold && mock.shadow_mode && mock.detailed_metric && !mock.quota_mode);
    let limit = mock.rate_limit.as_ref().unwrap();
    assert_eq!((limit.requests, limit.name.as_str()), (Some((1_000, Unit::Minute)), "mocks"));
    assert_eq!(limit.replaces, ["all"]);
    assert!(quota.quota_mode);
    assert_eq!(quota.key, "42");
    let Some(Metadata::Map(metadata)) = &quota.metadata else { panic!() };
    assert_eq!(metadata[1], ("weight".to_owned(), Metadata::Number(0.5)));
    let tags = vec![Metadata::String("a".into()), Metadata::Null, Metadata::Bool(true)];
    assert_eq!(metadata[2].1, Metadata::List(tags));
    let requests =
        |it: &leaparray_envoy::config::DescriptorConfig| it.rate_limit.as_ref().unwrap().requests;
    assert_eq!(requests(quota), Some((16, Unit::Week)));
    assert_eq!(requests(same), Some((16, Unit::Week)));
    assert_eq!(requests(merged), Some((16, Unit::Month)));
    assert_eq!(requests(open), None);
}

#[test]
fn each_problem_says_where_it_is_and_what_would_be_right() {
    let limit = |text: &str| with(&format!("rate_limit: {{ {text} }}"));
    for (text, expected) in [
        ("", "the file is empty; write `domain: NAME` and `descriptors:`"),
        ("descriptors: []", "line 1: the file has no domain; write `domain: NAME`"),
        (
            "domain: d\ndescriptor: []",
            "line 2: domain \"d\": descriptor: unknown key; did you mean `descriptors`?",
        ),
        (
            "domain: d\ndescriptors: {}",
            "line 2: domain \"d\": descriptors: this is a mapping; write a list, whose items begin with `-`",
        ),
        (
            "domain: d\ndescriptors:\n  - value: v",
            "line 3: domain \"d\": the descriptor has no key; write `key: NAME`",
        ),
        (
            "domain: [",
            "line 2: this is no YAML: while parsing a node, did not find expected node content",
        ),
        (&with("key: j"), "line 4: domain \"d\": key: the key is there twice; write it once"),
        (
            &with("shadow_mode: maybe"),
            "line 4: domain \"d\": k.shadow_mode: \"maybe\" is no truth value; write `true` or `false`",
        ),
        (
            &with("value: v\nshare_threshold: true"),
            "line 5: domain \"d\": k_v.share_threshold: only values that end with `*` share a limit; write `value: v*`, or take `share_threshold` away",
        ),
        (
            &limit("unit: minute"),
            "line 4: domain \"d\": k.rate_limit: the limit has no number of requests; write `requests_per_unit: NUMBER`, 0 to refuse all",
        ),
        (
            &limit("requests_per_unit: 1"),
            "line 4: domain \"d\": k.rate_limit: the limit has no unit; write `unit:` and one of second, minute, hour, day, month, year, week",
        ),
        (
            &limit("unit: day, unlimited: true"),
            "line 4: domain \"d\": k.rate_limit.unit: an unlimited limit has no unit; take `unit` or `unlimited` away",
        ),
        (
            &limit("unit: day, requests_per_unit: -1"),
            "line 4: domain \"d\": k.rate_limit.requests_per_unit: \"-1\" is no number of requests; write a whole number from 0 to 4294967295",
        ),
        (
            &limit("unit: day, requests_per_unit: 010"),
            "line 4: domain \"d\": k.rate_limit.requests_per_unit: \"010\" is no number of requests; write a whole number from 0 to 4294967295",
        ),
        (
            &limit("unit: second, requests_per_unit: 4294967295"),
            "line 4: domain \"d\": k.rate_limit.requests_per_unit: 4294967295 requests in a second are more than can be counted; write at most 4194303, or `unlimited: true` in place of it",
        ),
        (
            &limit("unit: day, requests_per_unit: 1, name: a, replaces: [{ name: a }]"),
            "line 4: domain \"d\": k.rate_limit.replaces: the limit replaces itself; name another limit",
        ),
        (
            &limit("unit: day, requests_per_unit: 1, replaces: [{}]"),
            "line 4: domain \"d\": k.rate_limit.replaces: the item has no name; write `- name: NAME`",
        ),
        (
            &with("descriptors:\n  - { key: a, value: b }\n  - { key: a, value: b }"),
            "line 6: domain \"d\": k.a_b: the key and the value are those of line 5; write one of the two, or another value",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k*",
            "line 3: domain \"d\": k*.key: a `*` stands for a text in values only; write the `*` at the end of a value",
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

#[test]
fn all_problems_are_told_with_their_files() {
    let error = Config::from_files([
        ("a.yaml", "domain: a\ndescriptors: [{ key: k, valeu: v }]"),
        ("b.yaml", "domain: b\ndescriptors: [{ key: k, rate_limit: { unit: ms } }]"),
        ("c.yaml", "domain: a"),
    ])
    .unwrap_err();
    let files: Vec<_> = error.problems.iter().map(|it| (it.file.as_str(), it.line)).collect();
    assert_eq!(
        files,
        [("a.yaml", Some(2)), ("b.yaml", Some(2)), ("b.yaml", Some(2)), ("c.yaml", Some(1))]
    );
    assert_eq!(error.problems[1].path, "k.rate_limit.unit");
}

#[test]
fn bad_input_is_bounded() {
    // Ten levels of ten aliases each would be 10^10 nodes.
    let mut bomb = "domain: d\nx0: &x0 [a, a, a, a, a, a, a, a, a, a]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*x{}", level - 1); 10].join(", ");
        writeln!(bomb, "x{level}: &x{level} [{aliases}]").unwrap();
    }
    assert!(problems(&bomb)[0].ends_with("the text has more than 1048576 nodes"));
    // A million aliases of a megabyte would be a terabyte.
    let (long, aliases) = ("x".repeat(1 << 20), "*x,".repeat(1 << 19));
    let long = format!("x: &x {long}\ny: [{aliases}]");
    assert!(problems(&long)[0].ends_with("the text has more than 1048576 nodes"));
    let deep = format!("domain: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(problems(&deep), ["line 1: this is no YAML: recursion limit exceeded"]);
    let lists = format!("{}x", "- ".repeat(200));
    assert_eq!(problems(&lists), ["line 1: the text is nested more than 128 levels deep"]);
    let mut nested = String::new();
    for _ in 0..40 {
        nested = format!("[{{ key: k, descriptors: {nested} }}]");
        nested = nested.replace("descriptors:  }", "value: v }");
    }
    let nested = format!("domain: d\ndescriptors: {nested}");
    assert!(problems(&nested)[0].ends_with("descriptors are nested more than 32 levels deep"));
    let many = format!("domain: d\ndescriptors: [{}]", "{},".repeat(5_000));
    assert_eq!(problems(&many).len(), 100);
    assert!(problems(&"x".repeat(17 << 20))[0].contains("bytes, which is more than 16777216"));
}

/// In linear time: the product of the numbers of keys would take minutes.
#[test]
fn merge_of_many_keys_is_read() {
    let keys = |name: &str| {
        (0..100_000).fold(String::new(), |mut text, at| {
            write!(text, "{name}{at}: 1, ").unwrap();
            text
        })
    };
    let (a, b, merges) = (keys("a"), keys("b"), "<<: {}, ".repeat(100_000));
    let yaml = format!("domain: &a {{ {a} }}\nx: {{ {b} {merges} <<: *a }}\n");
    let problems = problems(&yaml);
    assert!(problems.iter().any(|it| it.starts_with("line 2: x: unknown key")), "{problems:?}");
}

#[test]
fn ten_thousand_descriptors_are_read() {
    let mut yaml = "domain: d\ndescriptors:\n".to_owned();
    for at in 0..10_000 {
        let limit = format!("{{ unit: second, requests_per_unit: {at} }}");
        writeln!(yaml, "  - {{ key: k{}, value: v{at}, rate_limit: {limit} }}", at % 7).unwrap();
    }
    let config = Config::from_yaml(&yaml).unwrap();
    assert_eq!(config.domains()[0].descriptors.len(), 10_000);
}

#[test]
fn quotas_have_from_two_requests_to_those_of_the_limit() {
    let limit =
        |more: &str| with(&format!("rate_limit: {{ unit: minute, requests_per_unit: 9, {more} }}"));
    let config = Config::from_yaml(&limit("requests_per_quota: 9")).unwrap();
    let read = config.domains()[0].descriptors[0].rate_limit.as_ref().unwrap();
    assert_eq!(read.requests_per_quota, Some(9));
    for wrong in ["0", "1", "10", "x"] {
        assert_eq!(
            problems(&limit(&format!("requests_per_quota: {wrong}"))),
            [format!(
                "line 4: domain \"d\": k.rate_limit.requests_per_quota: {wrong:?} is no number of \
                 requests of a quota; write a whole number from 2 to 9"
            )]
        );
    }
    let unlimited = problems(&with("rate_limit: { unlimited: true, requests_per_quota: 2 }"));
    assert!(unlimited[0].ends_with(
        "an unlimited limit has no quotas; take `requests_per_quota` or `unlimited` away"
    ));
    let shadow = format!("{}\n    shadow_mode: true", limit("requests_per_quota: 2"));
    assert!(problems(&shadow)[0].contains("k.shadow_mode: a limit with `requests_per_quota`"));
}
