//! Rules for some callers only, and for all except some.

use std::sync::Arc;

use leaparray::flow::{Ask, LimiterExt};
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp, TrafficType};
use leaparray_rules::{Caller, KeySource, RuleSet, Rules, WhyNot};

/// A request of an application, with or without a plan.
struct Request(Option<&'static str>, Option<&'static str>);

impl Caller for Request {
    type Key = &'static str;

    fn key(&self, source: &KeySource) -> Option<&'static str> {
        match source {
            KeySource::Header(name) if &**name == "x-app" => self.0,
            KeySource::Extension(name) if &**name == "plan" => self.1,
            _ => None,
        }
    }
}

const SHOP: Request = Request(Some("shop"), None);
const CRAWLER: Request = Request(Some("crawler"), None);
const FREE: Request = Request(Some("shop"), Some("free"));
const UNKNOWN: Request = Request(None, None);

fn rules(text: &str) -> Rules<ManualClock> {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Registry::with_clock(RegistryConfig::default(), clock);
    let rules = Rules::new(Arc::new(registry));
    rules.apply(&RuleSet::parse(text).unwrap_or_else(|it| panic!("{it}")));
    rules
}

/// Returns the number of requests of nine that are admitted.
fn admitted(rules: &Rules<ManualClock>, request: &Request) -> usize {
    (0..9).filter(|_| rules.enter("a", request).unwrap().is_admitted()).count()
}

fn rule(lines: &str) -> String {
    format!("[[rule]]\nname = \"{}\"\nresource = \"a\"\n{lines}\n", lines.len())
}

#[test]
fn rule_for_some_callers_concerns_no_others() {
    let rules = rules(&rule(
        "only = { \"header:x-app\" = [\"crawler\", \"bot\"] }\nlimit = \"2 per hour\"",
    ));
    assert_eq!(admitted(&rules, &SHOP), 9);
    assert_eq!(admitted(&rules, &UNKNOWN), 9);
    assert_eq!(admitted(&rules, &CRAWLER), 2);
    assert_eq!(admitted(&rules, &Request(Some("bot"), None)), 0, "they count together");
    assert!(!rules.limiter(&rules.registry().resource("a").unwrap(), &CRAWLER).is_empty());
    assert!(rules.limiter(&rules.registry().resource("a").unwrap(), &SHOP).is_empty());
}

#[test]
fn exception_is_no_way_around_a_limit_by_leaving_the_key_out() {
    let rules = rules(&rule("except = { \"header:x-app\" = \"shop\" }\nlimit = \"2 per hour\""));
    assert_eq!(admitted(&rules, &SHOP), 9);
    assert_eq!(admitted(&rules, &UNKNOWN), 2);
    assert_eq!(admitted(&rules, &CRAWLER), 0);
}

#[test]
fn any_value_is_the_presence_of_the_key() {
    let any = rules(&rule("only = { \"header:x-app\" = \"*\" }\nin_flight = 0"));
    assert_eq!((admitted(&any, &SHOP), admitted(&any, &UNKNOWN)), (0, 9));
    let none = rules(&rule("except = { \"header:x-app\" = \"*\" }\nin_flight = 0"));
    assert_eq!((admitted(&none, &SHOP), admitted(&none, &UNKNOWN)), (9, 0));
}

/// One rule for each value, and one for all others: as many rules as do not fit into a tuple.
#[test]
fn conditions_of_several_keys_hold_together_and_each_key_has_a_limit_of_its_own() {
    let text = [
        "only = { \"header:x-app\" = \"shop\", \"extension:plan\" = \"free\" }\nlimit = \"1 per hour\"",
        "only = { \"header:x-app\" = \"shop\" }\nexcept = { \"extension:plan\" = \"free\" }\nlimit = \"3 per hour\"",
        "only = { \"header:x-app\" = \"crawler\" }\nlimit = \"2 per hour\"",
        "except = { \"header:x-app\" = [\"shop\", \"crawler\"] }\nkey = \"header:x-app\"\nlimit = \"4 per hour\"",
        "limit = \"100 per hour\"",
    ]
    .map(rule)
    .concat();
    let rules = rules(&text);
    assert_eq!(admitted(&rules, &FREE), 1);
    assert_eq!(admitted(&rules, &SHOP), 3);
    assert_eq!(admitted(&rules, &CRAWLER), 2);
    assert_eq!(admitted(&rules, &Request(Some("b"), None)), 4);
    assert_eq!(admitted(&rules, &Request(Some("c"), None)), 4);
    assert_eq!(admitted(&rules, &UNKNOWN), 4);
    let names = |request| {
        let resource = rules.registry().resource("a").unwrap();
        rules.limiter(&resource, &request).names().map(str::len).sum::<usize>()
    };
    assert_eq!(names(SHOP), 4, "two rules, with two digits each");
}

#[test]
fn change_of_the_values_keeps_the_state() {
    let of = |values: &str| {
        rule("limit = \"3 per hour\"")
            .replace("limit", &format!("only = {{ \"header:x-app\" = {values} }}\nlimit"))
    };
    let rules = rules(&of("\"shop\""));
    assert_eq!(admitted(&rules, &SHOP), 3);
    let changes = rules.apply(&RuleSet::parse(&of("[\"shop\", \"crawler\"]")).unwrap());
    assert_eq!((changes.changed.len(), changes.begun_anew.len()), (1, 0));
    assert_eq!(admitted(&rules, &CRAWLER), 0, "the three of the shop count");
    rules.apply(&RuleSet::parse(&of("\"bot\"")).unwrap());
    assert_eq!(admitted(&rules, &CRAWLER), 9);
    let except = of("\"crawler\"").replace("only", "except");
    rules.apply(&RuleSet::parse(&except).unwrap());
    assert_eq!((admitted(&rules, &CRAWLER), admitted(&rules, &SHOP)), (9, 0));
}

#[test]
fn rule_for_either_direction_concerns_a_resource_of_each() {
    let rules = rules(
        "[[rule]]\nname = \"r\"\neither = \"*\"\nkey = \"resource\"\nlimit = \"2 per hour\"\n",
    );
    assert_eq!(admitted(&rules, &SHOP), 2);
    let outbound = || rules.enter_outbound("b", ()).unwrap().is_admitted();
    assert_eq!([outbound(), outbound(), outbound()], [true, true, false]);
    assert!(rules.status().misdirected.is_empty());
    let set = RuleSet::parse(&rules.rules()[0].to_string()).unwrap();
    assert_eq!(set.rules()[0], *rules.rules()[0]);
}

/// Returns the numbers of requests of nine that are admitted: without a context, and in two.
fn admitted_in_contexts(rules: &Rules<ManualClock>) -> [usize; 3] {
    let a = rules.registry().resource("a").unwrap();
    let now = Timestamp::from_secs(3_600);
    [a.clone(), a.in_context("web").unwrap(), a.in_context("batch").unwrap()].map(|it| {
        (0..9)
            // Both ways to decide have code of their own.
            .filter(|request| match request % 2 {
                0 => rules.enter_at(it.clone(), &SHOP, now).is_admitted(),
                _ => rules.limiter(&it, &SHOP).ask(&Ask::at(now)).is_admitted(),
            })
            .count()
    })
}

#[test]
fn rule_for_a_context_concerns_the_requests_that_enter_through_it() {
    for (lines, admitted) in [
        ("only = { context = \"batch\" }", [9, 9, 2]),
        ("only = { context = [\"web\", \"batch\"] }", [9, 2, 0]),
        ("only = { context = \"*\" }", [9, 2, 0]),
        ("except = { context = \"batch\" }", [2, 0, 9]),
        ("except = { context = \"*\" }", [2, 9, 9]),
        ("only = { context = \"web\", \"header:x-app\" = \"shop\" }", [9, 2, 9]),
        ("only = { context = \"web\", \"header:x-app\" = \"crawler\" }", [9, 9, 9]),
        ("key = \"context\"", [2, 2, 2]),
        ("", [2, 0, 0]),
    ] {
        let rules = rules(&rule(&format!("{lines}\nlimit = \"2 per hour\"")));
        assert_eq!(admitted_in_contexts(&rules), admitted, "{lines}");
        let set = RuleSet::parse(&rules.rules()[0].to_string()).unwrap();
        assert_eq!(set.rules()[0], *rules.rules()[0]);
    }
}

#[test]
fn explanation_says_that_a_rule_is_for_other_callers() {
    let text = rule("only = { \"header:x-app\" = [\"crawler\"] }\nin_flight = 1");
    let rules = RuleSet::parse(&text).unwrap();
    let explanation = rules.explain(TrafficType::Inbound, "a", &SHOP);
    assert_eq!(explanation.others[0].1, WhyNot::Caller);
    assert!(explanation.to_string().contains("it is for other callers"), "{explanation}");
    let explanation = rules.explain(TrafficType::Inbound, "a", &CRAWLER);
    assert_eq!(explanation.rules.len(), 1);
}

#[test]
fn each_problem_of_a_condition_says_what_would_be_right() {
    let table = "a table such as { \"header:x-app\" = [\"shop\", \"crawler\"] }";
    let source = "\"client/24\", \"context\", \"header:NAME\" or \"extension:NAME\"";
    let values = "a value, an array of values, or \"*\" for any";
    for (line, expected) in [
        ("only = \"shop\"", format!("only: is a string; write {table}")),
        ("except = {}", format!("except: has no condition; write {table}")),
        (
            "only = { cookie = \"a\" }",
            format!("only.\"cookie\": \"cookie\" is no key; write {source}"),
        ),
        (
            "only = { resource = \"a\" }",
            "only.\"resource\": the resource is said by `resource`; write another key".to_owned(),
        ),
        (
            "only = { client = 7 }",
            format!("only.\"client\": an integer is no text; write {values}"),
        ),
        ("only = { client = [] }", format!("only.\"client\": names no value; write {values}")),
        ("only = { client = \"\" }", format!("only.\"client\": \"\" is no value; write {values}")),
    ] {
        let text = format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{line}\nin_flight = 1\n");
        let problems = RuleSet::parse(&text).unwrap_err().in_source("f").to_string();
        assert_eq!(problems, format!("f:4: rule \"r\": {expected}"));
    }
}
