//! The page on the default limit beside published algorithms, on many seeds.
//!
//! The page is made of a table with the scores of each seed, which is beside the sources. All seeds
//! take minutes, so a check simulates some of them anew: each change of an algorithm or of the
//! backend changes their scores.

use std::fmt::Write as _;

use crate::algorithms::Algorithm;
use crate::parallel;
use crate::report::run_algorithm;
use crate::scenarios::{Scenario, capacity_changes, mix_changes, sizes};
use crate::score::{Score, best};
use crate::table::{self, line};

/// The seeds of the arrivals and of the mix.
const SEEDS: usize = 100;
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

/// The seeds that a check simulates.
const CHECKED: [usize; 3] = [1, 34, 67];

/// The table: the number of the scenario, the algorithm, the seed, and the score.
const TABLE: &str = include_str!("../published.tsv");

/// What an algorithm has reached with a seed: the worst of all phases.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reached {
    goodput: f64,
    p99: f64,
    settled: Option<usize>,
}

/// What all algorithms have reached.
#[derive(Debug, PartialEq)]
pub struct Results(
    /// By scenario, by algorithm, and by seed.
    Vec<Vec<Vec<Reached>>>,
);

fn scenarios() -> [Scenario; 3] {
    [capacity_changes(1.2, SECS), mix_changes([0.1, 0.6, 0.1], SECS), sizes(8, 1, SECS)]
}

impl Results {
    /// Simulates each scenario with each algorithm and seed.
    ///
    /// # Panics
    ///
    /// Panics if a thread cannot be started.
    #[must_use]
    pub fn of_all_seeds() -> Self {
        Self::of(&(1..=SEEDS).collect::<Vec<_>>())
    }

    fn of(seeds: &[usize]) -> Self {
        let run = |scenario: Scenario| {
            let best = best(&scenario.phases, 30);
            let pairs: Vec<_> = ALGORITHMS
                .iter()
                .flat_map(|&it| seeds.iter().map(move |&seed| (it, seed)))
                .collect();
            let scores = parallel::map(&pairs, |&(algorithm, seed)| {
                let phases = run_algorithm(&scenario, algorithm, &best, &[seed as u64]);
                let Score { goodput, p99, settled, .. } =
                    phases.into_iter().reduce(Score::worse).expect("a phase");
                Reached { goodput, p99, settled }
            });
            scores.chunks(seeds.len()).map(<[Reached]>::to_vec).collect()
        };
        Self(scenarios().into_iter().map(run).collect())
    }

    /// Reads the table, and simulates some of its seeds anew.
    ///
    /// # Errors
    ///
    /// A line that the table should have, or one that differs from what was simulated.
    ///
    /// # Panics
    ///
    /// Panics if a thread cannot be started.
    pub fn of_checked_table() -> Result<Self, String> {
        let read: Option<Vec<_>> = TABLE.lines().skip(1).map(read).collect();
        let lines = scenarios().len() * ALGORITHMS.len() * SEEDS;
        let read = read.filter(|it| it.len() == lines);
        let read = read.ok_or_else(|| format!("published.tsv has not {lines} scores"))?;
        let of_scenario = |all: &[Reached]| all.chunks(SEEDS).map(<[Reached]>::to_vec).collect();
        let results = Self(read.chunks(ALGORITHMS.len() * SEEDS).map(of_scenario).collect());
        let anew = Self::of(&CHECKED);
        let stored = results.0.iter().map(|algorithms| {
            let of_checked = |all: &Vec<Reached>| CHECKED.map(|seed| all[seed - 1]).to_vec();
            algorithms.iter().map(of_checked).collect()
        });
        if anew == Self(stored.collect()) {
            Ok(results)
        } else {
            Err("published.tsv has other results".to_owned())
        }
    }

    /// Returns the table.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = "scenario\talgorithm\tseed\tgoodput\tp99\tsettled\n".to_owned();
        for (scenario, algorithms) in self.0.iter().enumerate() {
            for (algorithm, reached) in ALGORITHMS.iter().zip(algorithms) {
                for (seed, Reached { goodput, p99, settled }) in (1..).zip(reached) {
                    let settled = settled.map_or_else(String::new, |it| it.to_string());
                    let name = name(*algorithm);
                    // The shortest digits that are read as the same number.
                    writeln!(text, "{scenario}\t{name}\t{seed}\t{goodput}\t{p99}\t{settled}")
                        .expect("memory");
                }
            }
        }
        text
    }
}

/// Reads the score of a line of the table.
fn read(line: &str) -> Option<Reached> {
    let [_, _, _, goodput, p99, settled] = line.split('\t').collect::<Vec<_>>()[..] else {
        return None;
    };
    let settled = if settled.is_empty() { None } else { Some(settled.parse().ok()?) };
    Some(Reached { goodput: goodput.parse().ok()?, p99: p99.parse().ok()?, settled })
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
type Plot = (&'static str, [f64; 2], fn(&Reached) -> f64);

/// Returns the page.
#[must_use]
pub fn page(results: &Results) -> String {
    let mut text = HEAD.to_owned();
    for (Scenario { name, .. }, scores) in scenarios().iter().zip(&results.0) {
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
fn seconds(reached: &Reached) -> f64 {
    reached.settled.map_or(f64::from(SECS), |it| it as f64)
}

fn name(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Fixed(limit) => format!("fixed, {limit}"),
        other => other.name().to_owned(),
    }
}

/// Returns the medians.
fn medians(scores: &[Vec<Reached>]) -> String {
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
fn quantile(scores: &[Reached], of: fn(&Reached) -> f64, q: f64) -> f64 {
    let mut values: Vec<_> = scores.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[((q * values.len() as f64).ceil() as usize).saturating_sub(1)]
}

/// The width of the names.
const NAMES: usize = 14;

/// Draws a line for each algorithm, from a quantile to another one, with the median.
fn plot(title: &str, range: [f64; 2], scores: &[Vec<Reached>], of: fn(&Reached) -> f64) -> String {
    let rows = ALGORITHMS.iter().zip(scores).map(|(algorithm, scores)| {
        (name(*algorithm), [0.05, 0.5, 0.95].map(|q| quantile(scores, of, q)))
    });
    table::plot(title, range, NAMES, rows)
}
