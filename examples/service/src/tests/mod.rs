//! Tests of the parts, and of the service beside a scraper.

mod scraped;
mod watched;

use std::time::Duration;

use clap::Parser;
use leaparray::{HistogramConfig, NodeConfig, Outcome, Timestamp};

use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::reading::Reading;
use crate::route::Route;
use crate::{Args, distribution, one_line, table};

/// The time at which all requests end. The time of the clock is not used.
const NOW: Timestamp = Timestamp::from_secs(43_200);

fn record(metrics: &Metrics, route: Route, end: Timestamp, rt: Duration) {
    metrics.of(route).enter_at(end.saturating_sub(rt)).end_at(end, Outcome::Success);
}

fn reading(metrics: &Metrics) -> Reading {
    let mut reading = Reading::default();
    reading.renew_at(NOW, &metrics.registry, NOW);
    reading
}

fn limits(metrics: &Metrics, args: &[&str]) -> Limits {
    let args = [&["service"], args].concat();
    Limits::new(&Args::try_parse_from(args).unwrap(), metrics).unwrap()
}

/// In the last second, half of the requests are to one route, and half to another one, which is
/// slower. Before it, there was one more to the slower one.
fn two_routes() -> Metrics {
    let metrics = Metrics::new();
    let [fast, slow] = [1, 300].map(Duration::from_millis);
    record(&metrics, Route::Slow, NOW.saturating_sub(Duration::from_secs(10)), slow);
    for _ in 0..10 {
        record(&metrics, Route::Fast, NOW, fast);
        record(&metrics, Route::Slow, NOW, slow);
    }
    metrics
}

#[test]
fn total_has_the_quantiles_of_all_requests() {
    let total = reading(&two_routes()).total();
    let error = HistogramConfig::default().relative_error();
    for (window, expected) in [(total.short, 0.001), (total.long, 0.300)] {
        let p50 = window.quantiles.unwrap().p50.as_secs_f64();
        assert!((p50 / expected - 1.0).abs() <= error, "{p50} s");
    }
}

#[test]
fn total_has_no_quantiles_if_a_response_time_is_in_no_histogram() {
    let metrics = two_routes();
    let plain = metrics.registry.resource_with("plain", NodeConfig::default()).unwrap();
    let before = NOW.saturating_sub(Duration::from_secs(10));
    plain.enter_at(before).end_at(before, Outcome::Success);
    let total = reading(&metrics).total();
    assert!(total.short.quantiles.is_some(), "it is not in the last second");
    assert_eq!((total.long.quantiles, total.long.totals.rt_count()), (None, 22));
}

#[test]
fn distribution_is_unknown_if_a_response_time_is_in_no_histogram() {
    let metrics = two_routes();
    let text = || distribution::text_at(NOW, Route::Slow, &metrics);
    assert!(text().contains("/slow, 11 response times in the last minute"), "{}", text());
    metrics.of(Route::Slow).reconfigure(NodeConfig::default());
    record(&metrics, Route::Slow, NOW, Duration::from_secs(1));
    let unknown = "/slow has response times in the last minute that are in no histogram";
    assert_eq!(text().trim(), unknown);
}

#[test]
fn table_has_quantiles_of_each_route_and_of_the_total() {
    let table = table::table(&reading(&two_routes()));
    let heading = table.lines().nth(3).unwrap();
    assert!(heading.contains("mean       p50       p99       max"), "{table}");
    let row = |name| {
        let row = table.lines().find(|line| line.starts_with(name)).unwrap();
        row.split_whitespace().skip(6).take(4).collect::<Vec<_>>()
    };
    assert_eq!(row("/fast"), ["1.00ms"; 4], "{table}");
    assert_eq!(row("/slow"), ["300.00ms"; 4], "{table}");
    assert_eq!(row("/limited"), ["-"; 4], "{table}");
    let [mean, p50, p99, max] = row("total")[..] else { panic!("four columns: {table}") };
    assert_eq!([mean, max], ["150.50ms", "300.00ms"], "{table}");
    assert!(p50.starts_with("1.0") && p50.ends_with("ms"), "{table}");
    assert!(p99 == "300.00ms", "{table}");
}

/// The last of the ten buckets has just begun, so the rate over the time that has passed would be a
/// ninth higher than the limit.
#[test]
fn table_has_the_sum_that_the_limit_is_about() {
    let metrics = Metrics::new();
    for _ in 0..300 {
        record(&metrics, Route::Limited, NOW, Duration::ZERO);
    }
    metrics.of(Route::Limited).block_many_at(NOW, 7);
    let table = table::table(&reading(&metrics));
    let row = table.lines().find(|line| line.starts_with("/limited")).unwrap();
    let sums: Vec<_> = row.split_whitespace().skip(1).take(5).collect();
    assert_eq!(sums, ["300", "7", "0", "0", "300"], "{table}");
    let pass_qps = metrics.of(Route::Limited).at(NOW).snapshot().pass_qps();
    assert!(pass_qps > 320.0, "{pass_qps}");
}

/// Returns the lines of the table below the total.
fn limiters_in_table(metrics: &Metrics) -> Vec<String> {
    let table = table::table(&reading(metrics));
    let after_total = table.lines().skip_while(|line| !line.starts_with("total")).skip(1);
    after_total.map(str::to_owned).collect()
}

#[test]
fn table_has_the_states_of_the_rules() {
    let metrics = two_routes();
    assert_eq!(limiters_in_table(&metrics), [""; 0]);
    let _rules = limits(&metrics, &[]);
    assert_eq!(
        limiters_in_table(&metrics),
        [
            "failing-backend  shadow mode shadow, circuit state closed",
            "limited          limit 300, limit remaining 300",
            "paced            shadow mode off",
            "slow-backend     limit 20, limit remaining 20",
        ]
    );
}

#[test]
fn limiters_by_hand_are_those_of_the_arguments() {
    let metrics = two_routes();
    let _limits = limits(&metrics, &["--circuit", "--adaptive"]);
    assert_eq!(
        limiters_in_table(&metrics),
        [
            "/failing         circuit state closed",
            "/limited         limit 300, limit remaining 300",
            "/slow            limit 20, limit remaining 20",
        ]
    );
}

#[test]
fn wrong_rules_are_an_error_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("limits.toml");
    std::fs::write(&file, "[[rule]]\nname = \"a\"\nresource = \"/fast\"\nlimit = \"5 per sec\"\n")
        .unwrap();
    let args = Args::try_parse_from(["service", "--rules", file.to_str().unwrap()]).unwrap();
    let error = Limits::new(&args, &Metrics::new()).err().unwrap().to_string();
    assert!(error.contains("limits.toml:4: rule \"a\": limit: "), "{error}");
}

#[test]
fn quantiles_are_of_the_route_that_was_asked_for() {
    let metrics = two_routes();
    record(&metrics, Route::Slow, NOW, Duration::from_millis(600));
    let expected = "
/slow, 12 response times in the last minute
  mean  325.00ms
   p50  305.14ms
   p90  305.14ms
   p99  600.00ms
 p99.9  600.00ms
   max  600.00ms
";
    assert_eq!(distribution::text_at(NOW, Route::Slow, &metrics), expected);
    let none = "\n/failing, 0 response times in the last minute\n";
    assert_eq!(distribution::text_at(NOW, Route::Failing, &metrics), none);
}

#[test]
fn unknown_route_is_an_error_that_names_the_routes() {
    let error = Args::try_parse_from(["service", "--histogram", "/nope"]).err().unwrap();
    assert!(error.use_stderr());
    assert_eq!(
        one_line(&error),
        "error: invalid value '/nope' for '--histogram <ROUTE>': the routes are /fast, /slow, /failing, /limited"
    );
    let args = Args::try_parse_from(["service", "--histogram", "/slow"]).unwrap();
    assert_eq!(args.histogram, Some(Route::Slow));
}
