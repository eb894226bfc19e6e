//! Sentinel's rules decide as Sentinel documents it.

use std::sync::Arc;
use std::time::Duration;

use leaparray::{Entry, ManualClock, Registry, RegistryConfig, Resource, Timestamp};
use leaparray_rules::{Caller, KeySource, RuleSet, Rules, Sentinel, SentinelKind};

/// A request with an origin, and with parameters.
#[derive(Clone, Copy)]
struct Call(Option<&'static str>, &'static [&'static str]);

impl Caller for Call {
    type Key = &'static str;

    fn key(&self, source: &KeySource) -> Option<&'static str> {
        let KeySource::Extension(name) = source else { return None };
        match name.strip_prefix("parameter-") {
            Some(index) => self.1.get(index.parse::<usize>().unwrap()).copied(),
            None => self.0.filter(|_| &**name == "origin"),
        }
    }
}

const NOBODY: Call = Call(None, &[]);

const fn from(origin: &'static str) -> Call {
    Call(Some(origin), &[])
}

fn parse(kind: SentinelKind, json: &str) -> RuleSet {
    let rules = Sentinel::new(kind).parse(json);
    rules.unwrap_or_else(|it| panic!("{json}\n{it}")).rules().clone()
}

fn problems(kind: SentinelKind, json: &str) -> String {
    Sentinel::new(kind).parse(json).expect_err(json).in_source("f").to_string()
}

fn rules(kind: SentinelKind, json: &str) -> (ManualClock, Rules<ManualClock>) {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let rules = Rules::new(Arc::new(registry));
    rules.apply(&parse(kind, json));
    (clock, rules)
}

/// Returns the number of requests of 50 that are admitted at once.
fn admitted(rules: &Rules<ManualClock>, call: Call) -> usize {
    (0..50).filter_map(|_| rules.try_enter("pay", call).ok()).map(Entry::success).count()
}

fn flow(fields: &str) -> (ManualClock, Rules<ManualClock>) {
    rules(SentinelKind::Flow, &format!("[{{\"resource\":\"pay\",{fields}}}]"))
}

#[test]
fn flow_rule_limits_the_rate_of_a_second() {
    let (clock, rules) = flow("\"count\":5");
    assert_eq!(admitted(&rules, NOBODY), 5);
    clock.advance(Duration::from_millis(999));
    assert_eq!(admitted(&rules, from("shop")), 0, "the default concerns all origins");
    clock.advance(Duration::from_millis(1));
    assert_eq!(admitted(&rules, NOBODY), 5);
    // A number may be a text. 2.9 requests are two.
    assert_eq!(admitted(&flow("\"count\":\"2.9\",\"grade\":\"1\"").1, NOBODY), 2);
    assert_eq!(admitted(&flow("\"count\":0").1, NOBODY), 0);
    assert!(
        rules.enter_outbound("pay", ()).unwrap().is_admitted() || admitted(&rules, NOBODY) == 0
    );
}

#[test]
fn flow_rule_concerns_a_resource_of_either_direction() {
    let (_, rules) = flow("\"count\":1");
    let outbound = || rules.enter_outbound("pay", ()).unwrap().is_admitted();
    assert_eq!([outbound(), outbound()], [true, false]);
}

#[test]
fn flow_rule_of_threads_limits_the_requests_in_flight() {
    let (_, rules) = flow("\"count\":2,\"grade\":0,\"controlBehavior\":2");
    let held: Vec<_> = (0..5).filter_map(|_| rules.try_enter("pay", NOBODY).ok()).collect();
    assert_eq!(held.len(), 2);
    drop(held);
    assert_eq!(admitted(&rules, NOBODY), 50, "each ends before the next one");
}

#[test]
fn flow_rule_of_an_origin_counts_its_requests_alone() {
    let (_, rules) = flow("\"count\":3,\"limitApp\":\"shop\"");
    assert_eq!(admitted(&rules, from("crawler")), 50);
    assert_eq!(admitted(&rules, NOBODY), 50);
    assert_eq!(admitted(&rules, from("shop")), 3);
}

#[test]
fn flow_rule_of_other_origins_counts_each_origin_that_no_rule_names() {
    let json = "[{\"resource\":\"pay\",\"count\":7,\"limitApp\":\"shop\"},
                 {\"resource\":\"pay\",\"count\":2,\"limitApp\":\"other\"},
                 {\"resource\":\"buy\",\"count\":2,\"limitApp\":\"crawler\"}]";
    let (_, rules) = rules(SentinelKind::Flow, json);
    assert_eq!(admitted(&rules, from("shop")), 7);
    assert_eq!(admitted(&rules, from("crawler")), 2, "it is named for another resource");
    assert_eq!(admitted(&rules, from("bot")), 2);
    assert_eq!(admitted(&rules, NOBODY), 50);
}

#[test]
fn flow_rule_warms_up_by_a_factor_of_three() {
    let (clock, rules) = flow("\"count\":90,\"controlBehavior\":1,\"warmUpPeriodSec\":10");
    let second = || {
        let each = (0..10).map(|_| {
            let admitted = admitted(&rules, NOBODY);
            clock.advance(Duration::from_millis(100));
            admitted
        });
        each.sum::<usize>()
    };
    let admitted: Vec<_> = (0..12).map(|_| second()).collect();
    assert!((29..=32).contains(&admitted[0]), "{admitted:?}");
    assert_eq!(admitted[11], 90, "{admitted:?}");
}

#[test]
fn flow_rule_spaces_requests_evenly() {
    let wait = |rules: &Rules<ManualClock>| {
        let (entry, wait) = rules.enter("pay", NOBODY).unwrap().into_result().ok()?.into_parts();
        entry.success();
        Some(wait.as_millis())
    };
    let (_, rules) = flow("\"count\":10,\"controlBehavior\":2,\"maxQueueingTimeMs\":250");
    assert_eq!([(); 4].map(|()| wait(&rules)), [Some(0), Some(100), Some(200), None]);
    // A request in two seconds.
    let (clock, rules) = flow("\"count\":0.5,\"controlBehavior\":2,\"maxQueueingTimeMs\":0");
    assert_eq!(admitted(&rules, NOBODY), 1);
    clock.advance(Duration::from_millis(1_999));
    assert_eq!(admitted(&rules, NOBODY), 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!(admitted(&rules, NOBODY), 1);
}

#[test]
fn flow_rule_of_a_regular_expression_counts_each_resource() {
    let json = "[{\"resource\":\"pay\\\\.v1/.*\",\"count\":2,\"regex\":true}]";
    let (_, rules) = rules(SentinelKind::Flow, json);
    let admitted = |name| (0..9).filter(|_| rules.try_enter(name, NOBODY).is_ok()).count();
    assert_eq!([admitted("pay.v1/a"), admitted("pay.v1/b"), admitted("payxv1/a")], [2, 2, 9]);
}

#[test]
fn flow_rule_of_a_related_resource_gives_way_to_it() {
    let (clock, rules) = flow("\"count\":3,\"strategy\":1,\"refResource\":\"write\"");
    assert_eq!(admitted(&rules, NOBODY), 50);
    for _ in 0..3 {
        rules.try_enter("write", NOBODY).unwrap().success();
    }
    assert_eq!(admitted(&rules, NOBODY), 0);
    clock.advance(Duration::from_secs(1));
    assert_eq!(admitted(&rules, NOBODY), 50);
    let fields = "\"count\":1,\"grade\":0,\"strategy\":1,\"refResource\":\"write\"";
    let (_, rules) = flow(fields);
    let held = rules.try_enter("write", NOBODY).unwrap();
    assert_eq!(admitted(&rules, NOBODY), 0);
    held.success();
    assert_eq!(admitted(&rules, NOBODY), 50);
}

#[test]
fn flow_rule_of_a_context_concerns_no_other() {
    let (clock, rules) = flow("\"count\":3,\"strategy\":2,\"refResource\":\"batch\"");
    let resource = rules.registry().resource("pay").unwrap();
    let (batch, web) = (resource.in_context("batch").unwrap(), resource.in_context("web").unwrap());
    let admitted = |of: &Resource<ManualClock>| {
        let now = leaparray::Clock::now(&clock);
        (0..9).filter(|_| rules.enter_at(of.clone(), &NOBODY, now).is_admitted()).count()
    };
    assert_eq!([admitted(&resource), admitted(&web), admitted(&batch)], [9, 9, 3]);
    let of_app = r#"[{"resource":"a","count":1,"strategy":2,"limitApp":"shop","refResource":"b"}]"#;
    assert_eq!(
        problems(SentinelKind::Flow, of_app),
        "f:1: rule \"flow a\": limitApp: \"shop\" is not kept: a limit of a context counts \
         the requests of all origins; write \"default\""
    );
    assert_eq!(
        problems(SentinelKind::Flow, r#"[{"resource":"a","count":1,"strategy":2}]"#),
        "f:1: rule \"flow a\": lacks the context; write `refResource`"
    );
}

/// Ends calls, of which the first ones fail.
fn calls(rules: &Rules<ManualClock>, failures: usize, all: usize) {
    for number in 0..all {
        let entry = rules.try_enter("pay", NOBODY).expect("it is closed");
        if number < failures { entry.exception() } else { entry.success() }
    }
}

fn degrade(fields: &str) -> (ManualClock, Rules<ManualClock>) {
    let json = format!("[{{\"resource\":\"pay\",\"timeWindow\":10,{fields}}}]");
    rules(SentinelKind::Degrade, &json)
}

#[test]
fn degrade_rule_opens_above_its_ratio_of_exceptions() {
    let (clock, rules) = degrade("\"grade\":1,\"count\":0.5");
    calls(&rules, 2, 4);
    assert_eq!(admitted(&rules, NOBODY), 50, "half is not above half");
    clock.advance(Duration::from_secs(2));
    calls(&rules, 4, 4);
    assert!(
        rules.try_enter("pay", NOBODY).is_ok_and(|it| {
            it.exception();
            true
        }),
        "five calls"
    );
    assert_eq!(admitted(&rules, NOBODY), 0);
    clock.advance(Duration::from_millis(9_999));
    assert_eq!(admitted(&rules, NOBODY), 0);
    clock.advance(Duration::from_millis(1));
    let probe = rules.try_enter("pay", NOBODY).unwrap();
    assert_eq!(admitted(&rules, NOBODY), 0, "one probe");
    probe.success();
    assert_eq!(admitted(&rules, NOBODY), 50);
}

#[test]
fn degrade_rule_counts_exceptions_in_its_interval() {
    let fields = "\"grade\":2,\"count\":3,\"minRequestAmount\":4,\"statIntervalMs\":20000";
    let (clock, rules) = degrade(fields);
    calls(&rules, 3, 8);
    clock.advance(Duration::from_secs(19));
    calls(&rules, 1, 1);
    assert_eq!(admitted(&rules, NOBODY), 0, "four are more than three");
}

#[test]
fn degrade_rule_opens_by_slow_calls() {
    let slow = |rules: &Rules<ManualClock>, clock: &ManualClock, slow: u32, all: u32| {
        for number in 0..all {
            let entry = rules.try_enter("pay", NOBODY).expect("it is closed");
            clock.advance(Duration::from_millis(if number < slow { 21 } else { 20 }));
            entry.success();
        }
    };
    let fields = "\"grade\":0,\"count\":20,\"slowRatioThreshold\":0.4,\"statIntervalMs\":60000";
    let (clock, rules) = degrade(fields);
    slow(&rules, &clock, 2, 5);
    assert!(rules.try_enter("pay", NOBODY).is_ok(), "two of five are not above 40 %");
    let (clock, rules) = degrade(fields);
    slow(&rules, &clock, 3, 5);
    assert_eq!(admitted(&rules, NOBODY), 0);
    let (clock, rules) = degrade("\"count\":20,\"statIntervalMs\":60000");
    slow(&rules, &clock, 5, 5);
    assert_eq!(admitted(&rules, NOBODY), 0, "the ratio of 1 is reached by all calls");
}

#[test]
fn authority_rule_admits_listed_origins_or_refuses_them() {
    let of = |fields: &str| {
        rules(SentinelKind::Authority, &format!("[{{\"resource\":\"pay\",{fields}}}]")).1
    };
    let white = of("\"strategy\":0,\"limitApp\":\"shop,bank\"");
    let black = of("\"strategy\":1,\"limitApp\":\"shop,bank\"");
    for (call, by_white, by_black) in
        [(from("shop"), 50, 0), (from("bank"), 50, 0), (from("crawler"), 0, 50), (NOBODY, 50, 50)]
    {
        assert_eq!((admitted(&white, call), admitted(&black, call)), (by_white, by_black));
    }
}

#[test]
fn system_rule_limits_all_inbound_requests_together() {
    let (_, rules) = rules(SentinelKind::System, "[{\"qps\":3,\"maxThread\":-1,\"avgRt\":-1}]");
    let enter = |name| rules.try_enter(name, NOBODY).is_ok();
    assert_eq!(["a", "b", "c", "d"].map(enter), [true, true, true, false]);
    assert!(rules.enter_outbound("out", ()).unwrap().is_admitted());
    let (_, rules) = self::rules(SentinelKind::System, "[{\"maxThread\":2}]");
    let held: Vec<_> = ["a", "b", "c"].map(|it| rules.try_enter(it, NOBODY)).into();
    assert_eq!(held.iter().filter(|it| it.is_ok()).count(), 2);
}

#[test]
fn system_rule_refuses_inbound_requests_above_its_response_time() {
    let (clock, rules) = rules(SentinelKind::System, "[{\"avgRt\":20,\"highestCpuUsage\":1}]");
    let slow = rules.try_enter("pay", NOBODY).unwrap();
    clock.advance(Duration::from_millis(21));
    slow.success();
    clock.advance(Duration::from_millis(100));
    assert_eq!(admitted(&rules, NOBODY), 0);
    assert!(rules.enter_outbound("out", ()).unwrap().is_admitted());
    clock.advance(Duration::from_secs(2));
    assert_eq!(admitted(&rules, NOBODY), 50);
    let problem = problems(SentinelKind::System, "[{\"highestSystemLoad\":4}]");
    assert!(problem.starts_with("f:1: rule \"system\": highestSystemLoad: 4 is not kept"));
}

fn param(fields: &str) -> (ManualClock, Rules<ManualClock>) {
    let json = format!("[{{\"resource\":\"pay\",\"paramIdx\":1,{fields}}}]");
    rules(SentinelKind::ParamFlow, &json)
}

const fn with(value: &'static [&'static str]) -> Call {
    Call(None, value)
}

#[test]
fn param_flow_rule_limits_each_value_and_some_values_by_limits_of_their_own() {
    let items = "\"paramFlowItemList\":[{\"object\":\"vip\",\"count\":9,\"classType\":\"java.lang.String\"},
                 {\"object\":7,\"count\":\"0\",\"classType\":\"int\"}]";
    let (clock, rules) = param(&format!("\"count\":3,\"durationInSec\":2,{items}"));
    assert_eq!(admitted(&rules, with(&["vip", "ann"])), 3);
    assert_eq!(admitted(&rules, with(&["vip", "bob"])), 3);
    assert_eq!(admitted(&rules, with(&["ann", "vip"])), 9);
    assert_eq!(admitted(&rules, with(&["ann", "7"])), 0);
    assert_eq!(admitted(&rules, with(&["ann"])), 50, "it has no such parameter");
    clock.advance(Duration::from_secs(2));
    assert_eq!(admitted(&rules, with(&["", "ann"])), 3);
}

#[test]
fn param_flow_rule_has_bursts_threads_and_paces() {
    assert_eq!(admitted(&param("\"count\":3,\"burstCount\":4").1, with(&["", "ann"])), 7);
    let (_, rules) = param("\"count\":2,\"grade\":0");
    let held: Vec<_> =
        (0..5).filter_map(|_| rules.try_enter("pay", with(&["", "a"])).ok()).collect();
    assert_eq!((held.len(), rules.try_enter("pay", with(&["", "b"])).is_ok()), (2, true));
    let (clock, rules) = param("\"count\":2,\"controlBehavior\":2,\"durationInSec\":10");
    assert_eq!(admitted(&rules, with(&["", "a"])), 1);
    clock.advance(Duration::from_secs(5));
    assert_eq!(admitted(&rules, with(&["", "a"])), 1);
}

#[test]
fn all_problems_name_the_rule_the_field_and_the_value() {
    let json = "[
        {\"resource\": \"pay\", \"count\": -1,
         \"clusterMode\": false},
        {\"resource\": \"buy\", \"count\": 5, \"strategy\": 1,
         \"controlBehavior\": 2, \"refResource\": \"pay\"},
        7,
        {\"count\": 5, \"grade\": 1},
        {\"resource\": \"sell\", \"grade\": 3, \"count\": \"many\"},
        {\"resource\": \"a*\", \"count\": 1},
        {\"resource\": \"a+\", \"count\": 1, \"regex\": true},
        {\"resource\": \"b\", \"count\": 1, \"controlBehavior\": 3}
    ]";
    let expected = "\
f:2: rule \"flow pay\": count: -1 is no limit; write a number from 0 on
f:5: rule \"flow buy\": controlBehavior: 2 is not kept: a limit by another resource refuses at once; \
write 0
f:6: 7 is no rule; write an object for each rule
f:7: lacks a resource; write `resource`
f:8: rule \"flow sell\": count: \"many\" is no number; write a number
f:8: rule \"flow sell\": grade: 3 is not kept: there is no such grade; write 0 or 1
f:9: rule \"flow a*\": resource: \"a*\" is not kept: `*` is a wildcard here; write a name without it
f:10: rule \"flow a+\": resource: \"a+\" is not kept: of a regular expression, only `.*` and escaped \
characters are kept; write a text with `.*` as its only operator, or a rule for each name
f:11: rule \"flow b\": controlBehavior: 3 is not kept: requests are not both spaced and warmed up; \
write 1 or 2";
    assert_eq!(problems(SentinelKind::Flow, json), expected);
    for (kind, json, expected) in [
        (SentinelKind::Flow, "[{]", "f:1: no JSON array: key must be a string"),
        (
            SentinelKind::Flow,
            "[{\"resource\":\"a\"}]",
            "f:1: rule \"flow a\": lacks a limit; write `count`",
        ),
        (
            SentinelKind::Degrade,
            "[{\"resource\":\"a\",\"grade\":2,\"count\":1,\"timeWindow\":0,\"minRequestAmount\":6}]",
            "f:1: rule \"degrade a\": timeWindow: 0 is no number from 1 on; write a number of seconds \
             from 1 on\nf:1: rule \"degrade a\": minRequestAmount: 6 is not kept: a number of \
             exceptions counts among any number of calls; write at most 5 or `count` + 1, or the \
             grade 1",
        ),
        (
            SentinelKind::Degrade,
            "[{\"resource\":\"a\",\"grade\":1,\"count\":1,\"timeWindow\":1}]",
            "f:1: rule \"degrade a\": count: 1 is a share that is never exceeded; write a share from \
             0 to below 1",
        ),
        (
            SentinelKind::Authority,
            "[{\"resource\":\"a\",\"limitApp\":\"b\"},\n{\"resource\":\"a\",\"limitApp\":\"c, d\"}]",
            "f:2: rule \"authority a\": resource: the rule of line 1 has this resource, and Sentinel \
             keeps the first; write one rule for each resource\nf:2: rule \"authority a\": limitApp: \
             \" d\" is no origin; write origins with commas in between, such as \"shop,crawler\"",
        ),
        (
            SentinelKind::ParamFlow,
            "[{\"resource\":\"a\",\"count\":1,\"paramIdx\":-1}]",
            "f:1: rule \"paramFlow a\": paramIdx: -1 is not kept: parameters have indices from the \
             first one on; write an index from 0 on",
        ),
        (
            SentinelKind::ParamFlow,
            "[{\"resource\":\"a\",\"count\":1,\"paramIdx\":0,\"paramFlowItemList\":[{\"count\":-1}]}]",
            "f:1: rule \"paramFlow a\": paramFlowItemList[0].object: null is no value of a parameter; \
             write its text, without line breaks\nf:1: rule \"paramFlow a\": paramFlowItemList[0].count: -1 is no limit; \
             write a whole number from 0 on",
        ),
    ] {
        assert_eq!(problems(kind, json), expected, "{json}");
    }
}

#[test]
fn equal_rules_are_one_and_other_rules_of_a_resource_have_names_of_their_own() {
    let json = "[{\"resource\":\"pay\",\"count\":5},{\"id\":2,\"resource\":\"pay\",\"count\":5.0},
                 {\"resource\":\"pay\",\"count\":9},{\"resource\":\"pay\",\"count\":9,\"grade\":0}]";
    let set = parse(SentinelKind::Flow, json);
    let names: Vec<_> = set.rules().iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["flow pay", "flow pay (2)", "flow pay in flight"]);
}

#[test]
fn rules_are_written_back_with_all_their_fields() {
    let json = r#"[{"clusterConfig":{"fallbackToLocalWhenFail":true,"flowId":null},"count":1.0,"id":9007199254740993,"limitApp":"default","mine":[null,"ä"],"resource":"pay"}]"#;
    let rules = Sentinel::new(SentinelKind::Flow).parse(json).unwrap();
    assert_eq!(rules.to_json(), json.replace(",\"flowId\":null", ""));
    assert_eq!(
        Sentinel::new(SentinelKind::Flow).parse(&rules.to_json()).unwrap().rules(),
        rules.rules()
    );
    assert_eq!(Sentinel::new(SentinelKind::System).parse("[]").unwrap().to_json(), "[]");
}

#[test]
fn translated_rules_are_printed_as_a_file() {
    let json = "[{\"resource\":\"pay\",\"paramIdx\":0,\"count\":3,\
                 \"paramFlowItemList\":[{\"object\":\"a\\\"b\",\"count\":9}]}]";
    let set = parse(SentinelKind::ParamFlow, json);
    let text: String = set.rules().iter().map(ToString::to_string).collect();
    assert_eq!(RuleSet::parse(&text).unwrap(), set, "{text}");
}

#[test]
#[cfg(not(feature = "fleet"))]
fn cluster_needs_the_feature_for_fleets() {
    assert_eq!(
        problems(SentinelKind::Flow, r#"[{"resource": "pay", "count": 9, "clusterMode": true}]"#),
        "f:1: rule \"flow pay\": clusterMode: true is not kept: a limit over a cluster is none of \
         one process; write false"
    );
}

#[test]
#[cfg(feature = "fleet")]
fn cluster_becomes_a_limit_over_the_fleet() {
    let json = |config: &str| {
        format!(
            r#"[{{"resource": "pay", "count": 50, "clusterMode": true, "clusterConfig": {config}}}]"#
        )
    };
    let rules = |config: &str| {
        let rules = Sentinel::new(SentinelKind::Flow).parse(&json(config)).unwrap();
        let texts: Vec<_> = rules.rules().rules().iter().map(ToString::to_string).collect();
        texts.join("\n")
    };
    assert_eq!(
        rules(r#"{"flowId": 7, "thresholdType": 1}"#),
        "[[rule]]\nname = \"flow pay\"\neither = \"pay\"\nlimit = \"50 per second\"\n\
         buckets = 10\nover = \"fleet\"\naway = \"open\"\n\n\
         [[rule]]\nname = \"flow pay without the fleet\"\neither = \"pay\"\n\
         limit = \"50 per second\"\nbuckets = 2\n"
    );
    assert_eq!(
        rules(
            r#"{"thresholdType": "1", "fallbackToLocalWhenFail": false, "sampleCount": 5,
                "windowIntervalMs": 2000}"#
        ),
        "[[rule]]\nname = \"flow pay\"\neither = \"pay\"\nlimit = \"100 per 2s\"\n\
         buckets = 5\nover = \"fleet\"\naway = \"open\"\n"
    );
    let all = "[
        {\"resource\": \"a\", \"count\": 5, \"clusterMode\": true},
        {\"resource\": \"b\", \"count\": 5, \"clusterMode\": true, \"grade\": 0, \"strategy\": 1,
         \"clusterConfig\": {\"thresholdType\": 0}},
        {\"resource\": \"c\", \"count\": 5, \"clusterMode\": true, \"controlBehavior\": 2,
         \"limitApp\": \"other\", \"clusterConfig\": {\"thresholdType\": 1, \"sampleCount\": 7}}
    ]";
    let expected = "\
f:2: rule \"flow a\": clusterConfig: its absence is not kept: the number of clients is not known, by \
which `count` is multiplied; write {\"thresholdType\": 1}, and the `count` of all clients
f:3: rule \"flow b\": grade: 0 is not kept: requests in flight are counted by each process; write 1
f:3: rule \"flow b\": strategy: 1 is not kept: a limit over the fleet counts the requests that it \
limits; write 0
f:4: rule \"flow b\": clusterConfig.thresholdType: 0 is not kept: the number of clients is not known, \
by which `count` is multiplied; write 1, and the `count` of all clients
f:5: rule \"flow c\": controlBehavior: 2 is not kept: a limit over the fleet refuses at once; write 0
f:5: rule \"flow c\": count: interval 1s does not divide into 7 buckets of whole microseconds, from \
1 ms to a day each
f:6: rule \"flow c\": limitApp: \"other\" is not kept: a limit over the fleet counts all requests \
together; write \"default\", or one origin";
    assert_eq!(problems(SentinelKind::Flow, all), expected);
}

#[test]
fn degrade_rule_by_number_has_the_default_of_its_calls() {
    for fields in ["", ",\"minRequestAmount\":5"] {
        let json =
            format!("[{{\"resource\":\"pay\",\"grade\":2,\"count\":3,\"timeWindow\":10{fields}}}]");
        let (_, rules) = rules(SentinelKind::Degrade, &json);
        calls(&rules, 3, 3);
        assert_eq!(admitted(&rules, NOBODY), 50, "three are not more than three");
        calls(&rules, 1, 1);
        assert_eq!(admitted(&rules, NOBODY), 0);
        let set = parse(SentinelKind::Degrade, &json);
        assert!(set.rules()[0].to_string().contains("failures = 4,"));
        assert_eq!(RuleSet::parse(&set.rules()[0].to_string()).unwrap(), set);
    }
}

#[test]
fn booleans_are_texts_in_any_case_and_others_are_told() {
    let is_set = |text: &str| {
        let json = format!("[{{\"resource\":\"a\\\\.b\",\"count\":1,\"regex\":{text}}}]");
        Sentinel::new(SentinelKind::Flow)
            .parse(&json)
            .map(|it| it.rules().rules()[0].resources[0].as_str() == "a.b")
    };
    for text in ["true", "\"true\"", "\"TRUE\"", "\" True \""] {
        assert_eq!(is_set(text), Ok(true), "{text}");
    }
    for text in ["false", "\"False\"", "null", "\"\""] {
        assert_eq!(is_set(text), Ok(false), "{text}");
    }
    for text in ["\"yes\"", "\"1\"", "1", "[]"] {
        let error = is_set(text).unwrap_err().to_string();
        assert!(error.contains(&format!("regex: {text} is no boolean")), "{error}");
    }
    let cluster = "[{\"resource\":\"a\",\"count\":1,\"clusterMode\":\"TRUE\"}]";
    assert!(Sentinel::new(SentinelKind::Flow).parse(cluster).is_err());
}

#[test]
fn texts_that_a_file_cannot_have_are_told() {
    for (kind, fields, key) in [
        (SentinelKind::Flow, r#""resource":" a ""#, "resource"),
        (SentinelKind::Degrade, r#""resource":"a\u2028b""#, "resource"),
        (SentinelKind::Authority, r#""resource":"a\nb","limitApp":"x""#, "resource"),
        (SentinelKind::Flow, r#""resource":"a","limitApp":"x\ny""#, "limitApp"),
        (SentinelKind::Flow, r#""resource":"a","limitApp":" x""#, "limitApp"),
        (SentinelKind::Authority, r#""resource":"a","limitApp":"x,\ty,z\u2029z""#, "limitApp"),
        (SentinelKind::Flow, r#""resource":"a","strategy":1,"refResource":"b ""#, "refResource"),
        (
            SentinelKind::ParamFlow,
            r#""resource":"a","paramIdx":0,"paramFlowItemList":[{"object":"x\ny","count":1}]"#,
            "paramFlowItemList[0].object",
        ),
        (
            SentinelKind::ParamFlow,
            r#""resource":"a","paramIdx":0,"paramFlowItemList":[{"object":"","count":1}]"#,
            "paramFlowItemList[0].object",
        ),
    ] {
        let json = format!("[{{\"count\":1,\"timeWindow\":1,{fields}}}]");
        assert!(problems(kind, &json).contains(&format!(" {key}: ")), "{json}");
    }
    // A value of a parameter may have spaces.
    let json = "[{\"resource\":\"a\",\"paramIdx\":0,\"count\":1,\
                 \"paramFlowItemList\":[{\"object\":\" x \",\"count\":1}]}]";
    let set = parse(SentinelKind::ParamFlow, json);
    let text: String = set.rules().iter().map(ToString::to_string).collect();
    assert_eq!(RuleSet::parse(&text).unwrap(), set, "{text}");
}

/// With the square of these numbers, it would take many minutes.
#[test]
fn rules_are_read_in_a_time_that_grows_with_their_number() {
    const RULES: usize = 20_000;
    let read = |kind, rule: &dyn Fn(usize) -> String| {
        let all: Vec<_> = (0..RULES).map(rule).collect();
        parse(kind, &format!("[{}]", all.join(",\n")))
    };
    let other = read(SentinelKind::Flow, &|number| {
        let app = if number % 2 == 0 { "other" } else { "shop" };
        format!("{{\"resource\":\"r{}\",\"count\":1,\"limitApp\":\"{app}\"}}", number / 2)
    });
    assert_eq!(other.rules().len(), RULES);
    assert_eq!(&*other.rules()[RULES - 2].name, "flow r9999 of other");
    assert_eq!(other.rules()[RULES - 2].except.len(), 1);
    // Those of one resource, of which each is there twice.
    let same = read(SentinelKind::Flow, &|number| {
        format!("{{\"resource\":\"r\",\"count\":{}}}", number / 2)
    });
    assert_eq!(same.rules().len(), RULES / 2);
    assert_eq!(&*same.rules()[RULES / 2 - 1].name, "flow r (10000)");
    let authority = read(SentinelKind::Authority, &|number| {
        format!("{{\"resource\":\"r{number}\",\"limitApp\":\"shop\"}}")
    });
    assert_eq!(authority.rules().len(), RULES);
    let items: Vec<_> =
        (0..RULES).map(|it| format!("{{\"object\":\"v{it}\",\"count\":{it}}}")).collect();
    let items = format!(
        "[{{\"resource\":\"r\",\"paramIdx\":0,\"count\":1,\"paramFlowItemList\":[{}]}}]",
        items.join(",")
    );
    assert_eq!(parse(SentinelKind::ParamFlow, &items).rules().len(), RULES + 1);
}

#[test]
fn regular_expression_whose_wildcard_would_be_a_part_of_a_name_is_told() {
    let json = r#"[{"resource":"GET /x/\\{.*","count":1,"regex":true}]"#;
    assert!(
        problems(SentinelKind::Flow, json).contains("resource: \"GET /x/\\\\{.*\" is not kept")
    );
    let json = r#"[{"resource":"GET /x/\\{id\\}.*","count":1,"regex":true}]"#;
    assert_eq!(parse(SentinelKind::Flow, json).rules()[0].resources[0].as_str(), "GET /x/{id}*");
}
