//! Changes of a limit that warms up.

use std::time::Duration;

use super::{admitted, file, names, rules};

fn limit(numbers: &str) -> leaparray_rules::RuleSet {
    file(&[("r", &format!("limit = {numbers}"))])
}

/// A cold service pays 20 permits of 100 in 0.6 s. Under a limit of 10, they would take 6 s.
#[test]
fn debt_that_is_paid_stays_paid_when_the_numbers_change() {
    let (clock, rules) = rules();
    rules.apply(&limit("\"100 per second\"\nwarm_up = \"60s\""));
    let orders = rules.registry().resource("a").unwrap();
    let ask = leaparray::flow::Ask::at(leaparray::Clock::now(&clock)).many(20);
    assert!(rules.ask(&orders, &(), &ask).is_admitted());
    clock.advance(Duration::from_secs(2));
    let changes = rules.apply(&limit("\"10 per second\"\nwarm_up = \"60s\""));
    assert_eq!(names(&changes)[1], ["r"]);
    assert!(admitted(&rules, 9) > 0);
}

/// A warm service has taken a burst, which its credit has paid. Under the lower limit, it would be
/// a debt of 80 s.
#[test]
fn burst_that_is_paid_stays_paid_under_a_lower_limit() {
    let (clock, rules) = rules();
    rules.apply(&limit("\"1000 per second\"\nwarm_up = \"10s\""));
    for _ in 0..150 {
        let _ = admitted(&rules, 101);
        clock.advance(Duration::from_millis(100));
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!(admitted(&rules, 800), 800, "a burst");
    rules.apply(&limit("\"10 per second\"\nwarm_up = \"10s\""));
    assert_eq!(admitted(&rules, 9), 0);
    clock.advance(Duration::from_secs(1));
    assert_eq!(admitted(&rules, 1), 1, "the burst has left the window");
}

/// The permits of the window are charged. Permits that the curve has not released yet are not.
#[test]
fn limiter_that_replaces_a_warm_up_is_charged_with_its_permits() {
    let (_, rules) = rules();
    rules.apply(&limit("\"90 per minute\"\nwarm_up = \"10m\""));
    let cold = admitted(&rules, 90);
    assert!((1..30).contains(&cold), "{cold} in the first bucket");
    rules.apply(&limit("\"90 per minute\""));
    assert_eq!(admitted(&rules, 99), 90 - cold);
}

/// A limit that warms up is charged as far as it admits at once, and begins cold.
#[test]
fn warm_up_that_replaces_another_limiter_begins_cold() {
    let (clock, rules) = rules();
    rules.apply(&limit("\"90 per minute\""));
    assert_eq!(admitted(&rules, 60), 60);
    rules.apply(&limit("\"90 per minute\"\nwarm_up = \"10m\""));
    assert_eq!(admitted(&rules, 99), 0, "those of the first bucket are charged");
    clock.advance(Duration::from_secs(6));
    assert_eq!(admitted(&rules, 99), 3, "a third of nine in a bucket");
}
