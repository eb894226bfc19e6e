//! Files with rules over a fleet, and their problems.

use std::sync::Arc;

use leaparray::Registry;
use leaparray_redis::{MemoryEngine, WhenAway};
use leaparray_rules::{Fleet, Follow, Limit, RuleSet, Rules};

fn problems(limiter: &str) -> String {
    let text = format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{limiter}\n");
    RuleSet::parse(&text).expect_err(limiter).to_string()
}

#[test]
fn printed_rule_is_read_as_the_same() {
    for (limiter, buckets, away) in [
        ("limit = \"1000 per second\"\nover = \"fleet\"\n", None, WhenAway::Closed),
        (
            "limit = \"1000 per 10s\"\nbuckets = 10\nover = \"fleet\"\naway = \"open\"\n",
            Some(10),
            WhenAway::Open,
        ),
        (
            "limit = \"100 per minute\"\nover = \"fleet\"\naway = { part = 0.25, processes = 5 }\n",
            None,
            WhenAway::Share { part: 0.25, processes: 5 },
        ),
    ] {
        let text = format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{limiter}");
        let rules = RuleSet::parse(&text).unwrap();
        assert_eq!(rules.rules()[0].to_string(), text);
        let Limit::Fleet(limit) = &rules.rules()[0].limit else { panic!("{limiter}") };
        assert_eq!((limit.buckets, limit.away), (buckets, away));
    }
    let closed = "limit = \"5 per second\"\nover = \"fleet\"\naway = \"closed\"";
    let of = |limiter| {
        RuleSet::parse(&format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{limiter}")).unwrap()
    };
    assert_eq!(of(closed), of("limit = \"5 per second\"\nover = \"fleet\""));
    assert_eq!(of("limit = \"5 per second\"\nover = \"process\""), of("limit = \"5 per second\""));
}

#[test]
fn problems_name_the_rule_the_key_and_what_would_be_right() {
    const LIMIT: &str = "limit = \"100 per second\"\nover = \"fleet\"\n";
    for (limiter, expected) in [
        (
            "limit = \"1 per second\"\nover = \"flet\"".to_owned(),
            "line 5: rule \"r\": over: \"flet\" has no meaning; write \"process\" or \"fleet\"",
        ),
        (
            "in_flight = 5\nover = \"fleet\"".to_owned(),
            "line 5: rule \"r\": over: has no meaning without `limit`; add that, or remove this key",
        ),
        (
            "limit = \"1 per second\"\naway = \"open\"".to_owned(),
            "line 5: rule \"r\": away: has no meaning without `over`; add that, or remove this key",
        ),
        (
            "limit = \"1 per second\"\nover = \"process\"\naway = \"open\"".to_owned(),
            "line 6: rule \"r\": away: has no meaning without `over = \"fleet\"`; add that, or remove this key",
        ),
        (
            format!("{LIMIT}key = \"client\""),
            "line 6: rule \"r\": key: is not possible over the fleet: a limit for each key is of \
             one process; write `over = \"process\"`, or a limit such as \"1000 per second\" \
             without it",
        ),
        (
            format!("{LIMIT}warm_up = \"5s\""),
            "line 6: rule \"r\": warm_up: is not possible over the fleet: a limit that warms up \
             is of one process; write `over = \"process\"`, or a limit such as \"1000 per \
             second\" without it",
        ),
        (
            "limit = \"1 per second, bursts of 5\"\nover = \"fleet\"".to_owned(),
            "line 4: rule \"r\": limit: is not possible over the fleet: a limit with bursts is of \
             one process; write `over = \"process\"`, or a limit such as \"1000 per second\" \
             without it",
        ),
        (
            "limit = \"0 per second\"\nover = \"fleet\"".to_owned(),
            "line 4: rule \"r\": limit: a limit is from 1 to 1099511627776 permits, not 0",
        ),
        (
            "limit = \"1 per 1us\"\nover = \"fleet\"".to_owned(),
            "line 4: rule \"r\": limit: a limit holds in any interval of 1 ms to 50 days, not of \
             1µs",
        ),
        (
            format!("{LIMIT}buckets = 7"),
            "line 4: rule \"r\": limit: interval 1s does not divide into 7 buckets of whole \
             microseconds, from 1 ms to a day each",
        ),
        (
            format!("{LIMIT}away = \"locally\""),
            "line 6: rule \"r\": away: \"locally\" has no meaning; write \"closed\", \"open\", or a \
             table such as { part = 0.5, processes = 10 }",
        ),
        (
            format!("{LIMIT}away = {{ part = 0.5 }}"),
            "line 6: rule \"r\": away: lacks the highest number of processes; write `processes`",
        ),
        (
            format!("{LIMIT}away = {{ part = 0.5, processes = 100 }}"),
            "line 4: rule \"r\": limit: a part of 0.5 of 100 permits is less than a permit for \
             each of 100 processes, or leaves nothing to lease",
        ),
        (
            format!("{LIMIT}away = {{ part = 1.5, processes = 2 }}"),
            "line 4: rule \"r\": limit: the part of a limit that is set aside is between 0 and 1, \
             not 1.5",
        ),
    ] {
        assert_eq!(problems(&limiter), expected);
    }
    let text = format!("[[rule]]\nname = \"{}\"\nresource = \"a\"\n{LIMIT}", "{".repeat(64));
    assert!(RuleSet::parse(&text).unwrap_err().to_string().ends_with(
        "name: is too long for a limit over the fleet; write a name of at most 191 bytes, of which \
         a brace and a `%` take three"
    ));
}

#[tokio::test(start_paused = true)]
async fn file_that_needs_a_fleet_changes_nothing_in_a_program_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    let text = "\n[[rule]]\nname = \"r\"\nresource = \"a\"\nlimit = \"5 per second\"\n\
                over = \"fleet\"\n";
    std::fs::write(&path, text).unwrap();
    let rules = Rules::new(Arc::new(Registry::new()));
    let error = rules.follow(Follow::file(&path)).unwrap_err();
    let expected = format!(
        "{}:2: rule \"r\": over: \"fleet\" is not possible: this program has no fleet; write \
         \"process\", or have the program give it one by `Fleet::rules`",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
    assert!(rules.rules().is_empty());
    let rules = Fleet::new("shop", MemoryEngine::new()).unwrap().rules(Arc::new(Registry::new()));
    assert_eq!(rules.follow(Follow::file(&path)).unwrap().added, [Arc::from("r")]);
    assert_eq!(rules.leases().len(), 1);
}
