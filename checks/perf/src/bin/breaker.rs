//! Simulates an `AdaptiveBreaker` in front of backends that fail, recover, or hang.
//! Prints the tables of `docs/reference/adaptive_breaker.md`. Times are simulated, and the random
//! numbers have fixed seeds, so each run prints the same.

#[path = "../../../../tests/suite/flow/breaker/simulation.rs"]
mod simulation;

use std::fmt::Display;
use std::time::Duration;

use leaparray::flow::breaker::AdaptiveBreakerConfig;
use simulation::{Answer, Report, simulate};

const RT: Duration = Duration::from_millis(20);
/// The outage: from this second on, for 30 seconds.
const DOWN: f64 = 10.0;
const UP: f64 = 40.0;

fn main() {
    recovery();
    steady_failure();
    slow_recovery();
    hangs();
}

fn run(rate: f64, secs: f64, backend: impl FnMut(f64, f64) -> Answer) -> Report {
    simulate(AdaptiveBreakerConfig::default(), &[(rate, secs)], backend, 1)
}

fn line(cells: impl IntoIterator<Item = impl Display>) {
    let cells: Vec<_> = cells.into_iter().map(|cell| cell.to_string()).collect();
    println!("| {} |", cells.join(" | "));
}

fn head(title: &str, columns: &[&str]) {
    println!("\n{title}\n");
    line(columns);
    println!("|{}", "---|".repeat(columns.len()));
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A backend that rejects every request during the outage, and a share of `errors` before and after
/// it.
fn outage(rate: f64, errors: f64) -> Report {
    run(rate, 60.0, |secs, draw| {
        let is_down = (DOWN..UP).contains(&secs);
        if is_down || draw < errors { Answer::rejected(RT) } else { Answer::accepted(RT) }
    })
}

fn recovery() {
    let secs = [1, 2, 3, 4, 5, 6, 7, 8];
    let mut columns = vec!["requests/s".to_owned()];
    columns.extend(secs.map(|sec| format!("{sec}")));
    columns.extend([
        "99 % after".to_owned(),
        "dropped".to_owned(),
        "admitted while down".to_owned(),
    ]);
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    head("Share that gets through in each second after an outage of 30 seconds.", &columns);
    for rate in [10.0, 100.0, 1_000.0, 10_000.0] {
        let report = outage(rate, 0.0);
        let mut cells = vec![rate.to_string()];
        cells
            .extend(secs.map(f64::from).map(|sec| percent(report.share(UP + sec - 1.0, UP + sec))));
        cells.push(format!("{:.1} s", report.recovery(UP)));
        cells
            .extend([report.dropped(UP, 60.0), report.admitted(DOWN, UP)].map(|it| it.to_string()));
        line(cells);
    }
    let columns = ["requests/s", "0 %", "0.1 %", "1 %", "5 %"];
    head("Seconds to 99 %, if the backend rejects a share of the requests afterwards.", &columns);
    for rate in [2.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0] {
        let mut cells = vec![rate.to_string()];
        let errors = [0.0, 0.001, 0.01, 0.05];
        cells.extend(errors.map(|errors| format!("{:.1}", outage(rate, errors).recovery(UP))));
        line(cells);
    }
}

fn slow_recovery() {
    let columns = ["response time", "10/s", "100/s", "1,000/s", "10,000/s"];
    head("Seconds to 99 % after an outage, if the backend is slow.", &columns);
    for millis in [20_u32, 500, 1_000, 2_000, 3_000] {
        let mut cells = vec![format!("{} s", f64::from(millis) / 1_000.0)];
        cells.extend([10.0, 100.0, 1_000.0, 10_000.0].map(|rate| {
            let report = run(rate, 70.0, |secs, _| match secs {
                DOWN..UP => Answer::rejected(RT),
                _ => Answer::accepted(Duration::from_millis(millis.into())),
            });
            format!("{:.1}", report.recovery(UP))
        }));
        line(cells);
    }
}

fn steady_failure() {
    let columns = ["rejected", "at 100/s", "at 1,000/s", "at 10,000/s"];
    head("Share that gets through in the second minute of a steady failure.", &columns);
    for tenths in 1..=10 {
        let failing = f64::from(tenths) / 10.0;
        let mut cells = vec![format!("{} %", 10 * tenths)];
        cells.extend([100.0, 1_000.0, 10_000.0].map(|rate| {
            let report = run(rate, 120.0, |_, draw| {
                if draw < failing { Answer::rejected(RT) } else { Answer::accepted(RT) }
            });
            percent(report.share(60.0, 120.0))
        }));
        line(cells);
    }
}

fn hangs() {
    let columns = ["time-out", "10/s", "100/s", "1,000/s", "10,000/s"];
    head("Seconds to the first drop, if the backend hangs and time-outs reject.", &columns);
    for secs in [1, 2, 5] {
        let mut cells = vec![format!("{secs} s")];
        cells.extend([10.0, 100.0, 1_000.0, 10_000.0].map(|rate| {
            let timed_out = Answer::rejected(Duration::from_secs(secs));
            let backend = |secs, _| if secs < 20.0 { Answer::accepted(RT) } else { timed_out };
            let first = run(rate, 40.0, backend).first_drop.expect("the backend hangs");
            format!("{:.1}", first.as_secs_f64() - 20.0)
        }));
        line(cells);
    }
}
