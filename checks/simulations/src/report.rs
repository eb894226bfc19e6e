//! The section of the page on limits that adapt themselves.

use std::iter;

use crate::algorithms::Algorithm;
use crate::backend::simulate;
use crate::scenarios::{Goal, Scenario};
use crate::score::{Best, Score, best, score};
use crate::table::line;

/// The seeds of the arrivals and of the mix.
pub const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

const HEAD: &str = "\
## Limits that adapt themselves

Calls arrive at random. An admitted call waits in one queue for one of 64 workers, which takes
5 ms for it, or 50 ms for a slow call; usually, one of ten is slow. A call is *good* if it ends
within 100 ms. A load of 1.2 is 1.2 × what the workers serve. Each scenario has three phases of
60 s. With longer calls, all times are longer in the same proportion.

Each cell has the worst of all phases and of five seeds, relative to the best fixed limit of the
phase, which no limiter knows in advance: the goodput; the quantile 0.99 of the response times;
and the second from which three seconds have 95 % of its goodput, or a dash if a phase has none.
The *best fixed limit* is the lowest one with at least 99.5 % of the highest goodput of any fixed
limit, in 30 s with the first seed. Its goodput is that highest one.

`Aimd` has a time-out of 5 s, and in the next column of 100 ms. All have their default settings.

";

const GOALS: &str = "
The program checks the goals of `Headroom`. In each phase with 64 workers and a load of at least
0.5, it has at least 97 % of the goodput, or 92 % if the mix changes; at most 1.3 × the quantile;
at most 2 s to settle; and a limit of at most 4 × the calls in flight, or of at most 45. If the
backend is slower at times, the only goal is 90 % of the goodput. If the load falls to 0.1 and to
0.01, the only goal is that limit. With another number of workers, there is no goal: with few,
chance alone makes some seconds bad.
";

/// A scenario, and what each algorithm has reached in it.
#[derive(Debug)]
pub struct Result {
    /// The worst scores by algorithm and phase.
    of: Vec<Vec<Score>>,
}

impl Result {
    /// Returns a line for each phase in which `Headroom` misses the goal of the scenario.
    #[must_use]
    pub fn missed(&self, scenario: &Scenario) -> Vec<String> {
        let is_near_use = |score: &Score| score.limit_by_use <= 4.0 || score.limit <= 45;
        let is_missed = |score: &Score| match scenario.goal {
            Goal::Follows(least) => {
                let is_fast = score.p99 <= 1.3 && score.settled.is_some_and(|it| it <= 2);
                score.goodput < least || !is_fast || !is_near_use(score)
            }
            Goal::Goodput(least) => score.goodput < least,
            Goal::Idle => !is_near_use(score),
            Goal::None => false,
        };
        let scores = self.of[0].iter().enumerate().filter(|(_, score)| is_missed(score));
        scores
            .map(|(phase, score)| format!("phase {phase} of {}: {score:?}", scenario.name))
            .collect()
    }
}

/// Simulates a scenario with all algorithms.
///
/// # Panics
///
/// Panics if a thread cannot be started.
#[must_use]
pub fn run(scenario: &Scenario) -> Result {
    let best = best(&scenario.phases, 30);
    let run = |algorithm: &Algorithm| run_algorithm(scenario, *algorithm, &best, &SEEDS);
    Result { of: Algorithm::ALL.iter().map(run).collect() }
}

/// Simulates a scenario with each seed. Returns the worst score of each phase.
///
/// # Panics
///
/// Panics if there is no seed.
#[must_use]
pub fn run_algorithm(
    scenario: &Scenario,
    algorithm: Algorithm,
    best: &[Best],
    seeds: &[u64],
) -> Vec<Score> {
    let phases = &scenario.phases;
    let scores = seeds.iter().map(|&seed| -> Vec<Score> {
        let observed = simulate(phases, algorithm, seed);
        let pairs = phases.iter().zip(&observed).zip(best);
        pairs.map(|((phase, observed), best)| score(phase, observed, best)).collect()
    });
    let worse = |one: Vec<Score>, other: Vec<Score>| {
        one.into_iter().zip(other).map(|(one, other)| one.worse(other)).collect()
    };
    scores.reduce(worse).expect("a seed")
}

/// Returns the section of the page.
#[must_use]
pub fn section(results: &[(Scenario, Result)]) -> String {
    let names = Algorithm::ALL.iter().enumerate().map(|(index, algorithm)| match index {
        0 => format!("**{}**", algorithm.name()),
        _ => algorithm.name().to_owned(),
    });
    let head: Vec<_> = iter::once("scenario".to_owned()).chain(names).collect();
    let mut text = HEAD.to_owned() + &line(head.iter().map(String::as_str));
    text += &line(iter::once("---").chain(Algorithm::ALL.iter().map(|_| "---:")));
    for (scenario, result) in results {
        let scores = result.of.iter().map(|scores| cell(scores));
        let cells: Vec<_> = iter::once(scenario.name.clone()).chain(scores).collect();
        text += &line(cells.iter().map(String::as_str));
    }
    text + GOALS
}

/// Writes the worst of all phases.
fn cell(scores: &[Score]) -> String {
    let worst = scores.iter().copied().reduce(Score::worse).expect("a phase");
    let settled = worst.settled.map_or("–".to_owned(), |it| format!("{it} s"));
    format!("{:.0} %, {:.1} ×, {settled}", worst.goodput * 100.0, worst.p99)
}
