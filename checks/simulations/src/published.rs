//! The page on the default limit beside published algorithms, on many seeds.

use crate::algorithms::Algorithm;
use crate::parallel;
use crate::report::run_algorithm;
use crate::scenarios::{Scenario, capacity_changes, mix_changes, sizes};
use crate::score::{Score, best};
use crate::table::{self, line};

/// The seeds of the arrivals and of the mix.
const SEEDS: u64 = 100;
/// The length of a phase.
const SECS: u32 = 20;

/// The algorithms of the page, and a limit that knows the capacity of the first and last phase.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Headroom,
    Algorithm::AimdWithDeadline,
    Algorithm::Gradient2,
    Algorithm::Vegas,
    Algorithm::EnvoyGradient,
    Algorithm::Fixed(FIXED),
];

/// About the best fixed limit of 64 workers.
const FIXED: u64 = 90;

/// What the algorithms have reached in a scenario: the worst phase of each seed.
#[derive(Debug)]
pub struct Results {
    name: String,
    /// By algorithm.
    scores: Vec<Vec<Score>>,
}

fn scenarios() -> [Scenario; 3] {
    [capacity_changes(1.2, SECS), mix_changes([0.1, 0.6, 0.1], SECS), sizes(8, 1, SECS)]
}

/// Simulates each scenario with each algorithm and seed.
///
/// # Panics
///
/// Panics if a thread cannot be started.
#[must_use]
pub fn run_all() -> Vec<Results> {
    let run = |scenario: Scenario| {
        let best = best(&scenario.phases, 30);
        let pairs: Vec<_> =
            ALGORITHMS.iter().flat_map(|&it| (1..=SEEDS).map(move |seed| (it, seed))).collect();
        let scores = parallel::map(&pairs, |&(algorithm, seed)| {
            let phases = run_algorithm(&scenario, algorithm, &best, &[seed]);
            phases.into_iter().reduce(Score::worse).expect("a phase")
        });
        let scores = scores.chunks(pairs.len() / ALGORITHMS.len()).map(<[Score]>::to_vec);
        Results { name: scenario.name, scores: scores.collect() }
    };
    scenarios().into_iter().map(run).collect()
}

const HEAD: &str = "\
# Adaptive limits in numbers

<!-- Written by `cargo run --release -p leaparray-simulations`. Do not edit: run it again. -->

[`Headroom`](crate::flow::adaptive::Headroom), the default of an
[`AdaptiveLimiter`](crate::flow::AdaptiveLimiter), beside
[`Aimd`](crate::flow::adaptive::Aimd) with the deadline of the calls as its time-out; beside
`Gradient2` and `Vegas` of Netflix's concurrency-limits and the gradient controller of Envoy, with
their published constants and the range of `Headroom`; and beside a fixed limit of 90, about the
best one for 64 workers.

The backend is that of `docs/SIMULATIONS.md` in the repository: calls arrive at random at 1.2 times
what the workers serve, wait in one queue, and take 5 ms, or 50 ms for one of ten. A call is good if
it ends within 100 ms. Each of three phases takes 20 s. Each line is of 100 seeds, of each of which
the worst phase counts: `●` is the median, and the line reaches from the fifth to the ninety-fifth
of 100. All is relative to the best fixed limit of each phase, which no limiter knows in advance.

";

const WHICH: &str = "\
## Which to take

- [`Headroom`](crate::flow::adaptive::Headroom): calls wait in a queue of the backend when there are
  too many, as nearly everywhere.
- [`Aimd`](crate::flow::adaptive::Aimd): the backend refuses or times out what is too much, and its
  response times tell nothing.
- [`ConcurrencyLimiter`](crate::flow::ConcurrencyLimiter): the capacity is known and stays, as of a
  pool of connections, or there are fewer than about ten workers, whose response times tell little.
- [`LimitAlgorithm`](crate::flow::adaptive::LimitAlgorithm): another signal tells of an overload,
  such as the load of the processors.
";

/// A title, the ends of the axis, and what is drawn.
type Plot = (&'static str, [f64; 2], fn(&Score) -> f64);

/// Returns the page.
#[must_use]
pub fn page(results: &[Results]) -> String {
    let mut text = HEAD.to_owned();
    for Results { name, scores } in results {
        text += "## ";
        text += name;
        text += "\n\n";
        text += &medians(scores);
        let plots: [Plot; 3] = [
            ("goodput, % of the best fixed limit's", [0.0, 100.0], |it| 100.0 * it.goodput),
            ("quantile 0.99, × that of the best fixed limit", [0.0, 10.0], |it| it.p99),
            ("seconds to settle, 20 if it does not", [0.0, 20.0], seconds),
        ];
        text += "\n```text\n";
        let plots = plots.map(|(title, range, of)| plot(title, range, scores, of));
        text += &(plots.join("\n") + "```\n\n");
    }
    text + WHICH
}

#[expect(clippy::cast_precision_loss, reason = "small")]
fn seconds(score: &Score) -> f64 {
    score.settled.map_or(f64::from(SECS), |it| it as f64)
}

fn name(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Fixed(limit) => format!("fixed, {limit}"),
        other => other.name().to_owned(),
    }
}

/// Returns the medians.
fn medians(scores: &[Vec<Score>]) -> String {
    let head = ["median of the seeds", "goodput", "quantile 0.99", "settles after"];
    let mut text = line(head.into_iter()) + &line(["---", "---:", "---:", "---:"].into_iter());
    for (algorithm, scores) in ALGORITHMS.iter().zip(scores) {
        let median = |of| quantile(scores, of, 0.5);
        let [goodput, p99, settled] =
            [median(|it| it.goodput), median(|it| it.p99), median(seconds)];
        let settled =
            if settled < f64::from(SECS) { format!("{settled:.0} s") } else { "–".to_owned() };
        let cells =
            [name(*algorithm), format!("{:.0} %", goodput * 100.0), format!("{p99:.1} ×"), settled];
        text += &line(cells.iter().map(String::as_str));
    }
    text
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
#[expect(clippy::cast_precision_loss, reason = "small")]
fn quantile(scores: &[Score], of: fn(&Score) -> f64, q: f64) -> f64 {
    let mut values: Vec<_> = scores.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[((q * values.len() as f64).ceil() as usize).saturating_sub(1)]
}

/// The width of the names.
const NAMES: usize = 14;

/// Draws a line for each algorithm, from a quantile to another one, with the median.
fn plot(title: &str, range: [f64; 2], scores: &[Vec<Score>], of: fn(&Score) -> f64) -> String {
    let rows = ALGORITHMS.iter().zip(scores).map(|(algorithm, scores)| {
        (name(*algorithm), [0.05, 0.5, 0.95].map(|q| quantile(scores, of, q)))
    });
    table::plot(title, range, NAMES, rows)
}
