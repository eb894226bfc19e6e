//! The tables and the plots.

use std::error::Error;
use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::algorithms::Algorithm;
use crate::backend::{Observed, simulate};
use crate::scenarios::{Goal, Scenario};
use crate::score::{Best, Score, best, score};

/// The seeds of the arrivals and of the mix. Scores are the worst of all of them, and plots are of
/// the first one.
pub const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

const HEAD: &str = "\
# Limits that adapt themselves, simulated

<!-- Written by `cargo run --release -p leaparray-simulations`. Do not edit: run it again. -->

Calls arrive at random, at a load of 1.2 unless a scenario says otherwise: 1.2 × what the workers of its first phase serve. A call that is admitted waits in one queue for a worker, which
takes 5 ms for it, or 50 ms for a slow call; usually, one of ten is slow. A call is *good* if it ends within 100 ms. All calls are served to their end. Each phase lasts
60 s. In a scenario with longer calls, all times are longer in the same proportion, and its table is in the unit of the longer second.

The *best fixed limit* of a phase is the lowest one with at least 99.5 % of the highest goodput of any fixed limit, in 30 s with the first seed. Its goodput is that highest
one. Each cell has three numbers, relative to the best fixed limit: goodput, p99, and the first second from which three consecutive seconds average at least 95 % of its
goodput. p99 is the quantile 0.99 of the response times. Each number is the worst of five seeds. The algorithms have their default settings, with limits from 20 to 200 for
`Aimd` and `Gradient2`; a second `Aimd` has a time-out of 100 ms instead of 5 s. `Bbr` takes the share of the workers that are busy for the load of the processors.
`Gradient2` learns from each call; the variant of Netflix's library that learns from windows of a second is not simulated.

The last columns are about `Headroom`: the share of three-second spans, after the limit has settled, whose goodput is below 95 %; the highest limit from five seconds after
the start of the phase, as a multiple of the mean of the calls in flight; and that limit. With few workers, three seconds have so few calls that chance alone makes some
of them bad.

The goals of `Headroom`, which the program checks, hold for these seeds: in each phase with 64 workers and a load of at least 0.5, at least 97 % of the goodput, or 92 % if the mix changes, or 90 % if the backend is slower at times; at most 1.2 ×
p99; at most 2 s; and a limit of at most 3 × the calls in flight. With fewer than about 10 calls in flight, the first limit of 20 and the peaks of random arrivals decide: the
goal is then a limit of at most 30. With seeds 6 to 30, a phase of calls of 50 and 500 ms settles after 3 s at
two seeds; the other goals hold.

The plots show the limit, and the goodput of each second. A gray line is the best fixed limit of each phase, with its goodput.

Regenerate this page and its plots with

```sh
cargo run --release -p leaparray-simulations
```
";

/// A scenario, and what each algorithm has reached in it.
#[derive(Debug)]
pub struct Result {
    best: Vec<Best>,
    /// The worst scores by algorithm and phase, with what happened with the first seed.
    of: Vec<(Vec<Score>, Vec<Observed>)>,
}

impl Result {
    /// Returns a line for each phase in which `Headroom` misses the goal of the scenario.
    #[must_use]
    pub fn missed(&self, scenario: &Scenario) -> Vec<String> {
        let is_near_use = |score: &Score| score.limit_by_use <= 3.0 || score.limit <= 30;
        let is_missed = |score: &Score| match scenario.goal {
            Goal::Follows(least) => {
                let is_fast = score.p99 <= 1.2 && score.settled.is_some_and(|it| it <= 2);
                score.goodput < least || !is_fast || !is_near_use(score)
            }
            Goal::Goodput(least) => score.goodput < least,
            Goal::Idle => !is_near_use(score),
            Goal::None => false,
        };
        let scores = self.of[0].0.iter().enumerate().filter(|(_, score)| is_missed(score));
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
    let of = Algorithm::ALL.iter().map(run).collect();
    Result { best, of }
}

/// Simulates a scenario with each seed. Returns the worst scores, and what happened with the first
/// seed.
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
) -> (Vec<Score>, Vec<Observed>) {
    let phases = &scenario.phases;
    let scores_of = |observed: &[Observed]| -> Vec<Score> {
        let pairs = phases.iter().zip(observed).zip(best);
        pairs.map(|((phase, observed), best)| score(phase, observed, best)).collect()
    };
    let first = simulate(phases, algorithm, seeds[0]);
    let mut worst = scores_of(&first);
    for seed in &seeds[1..] {
        let scores = scores_of(&simulate(phases, algorithm, *seed));
        worst = worst.into_iter().zip(scores).map(|(one, other)| one.worse(other)).collect();
    }
    (worst, first)
}

/// Returns the page and its plots, each with its path in the folder of the page.
///
/// # Errors
///
/// Returns the error of a plot.
pub fn files(
    results: &[(Scenario, Result)],
) -> std::result::Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut files = vec![("SIMULATIONS.md".to_owned(), text(results))];
    for (scenario, result) in results {
        let mut svg = String::new();
        plot(&mut svg, scenario, result)?;
        files.push((file(scenario), svg));
    }
    Ok(files)
}

fn text(results: &[(Scenario, Result)]) -> String {
    let mut text = HEAD.to_owned();
    for (scenario, result) in results {
        let (name, table, file) = (uppercase(&scenario.name), table(result), file(scenario));
        let image = format!("![The limits and the goodput over time]({file})");
        write!(text, "\n## {name}\n\n{table}\n{image}\n").expect("memory");
    }
    text
}

fn file(scenario: &Scenario) -> String {
    format!("simulations/{}.svg", scenario.file)
}

fn uppercase(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn table(result: &Result) -> String {
    let mut text = String::from("| best fixed limit | goodput /s | p99 ms |");
    let mut line = String::from("\n|---:|---:|---:|");
    for algorithm in Algorithm::ALL {
        write!(text, " {} |", algorithm.name()).expect("memory");
        line.push_str("---:|");
    }
    text.push_str(" below 95 % later | limit / use | limit |");
    text += &line;
    text.push_str("---:|---:|---:|\n");
    for (phase, best) in result.best.iter().enumerate() {
        let millis = best.p99.as_secs_f64() * 1e3;
        write!(text, "| {} | {:.0} | {millis:.1} |", best.limit, best.goodput).expect("memory");
        for (scores, _) in &result.of {
            let Score { goodput, p99, settled, .. } = scores[phase];
            let settled = settled.map_or("never".to_owned(), |it| format!("{it} s"));
            write!(text, " {:.1} %, {p99:.2}, {settled} |", goodput * 100.0).expect("memory");
        }
        let Score { relapses, limit_by_use, limit, .. } = result.of[0].0[phase];
        writeln!(text, " {:.1} % | {limit_by_use:.1} | {limit} |", relapses * 100.0)
            .expect("memory");
    }
    text
}

const COLORS: [RGBColor; Algorithm::ALL.len()] = [
    RGBColor(214, 39, 40),
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(140, 86, 75),
    RGBColor(148, 103, 189),
];
const GRAY: RGBColor = RGBColor(160, 160, 160);

fn plot(
    svg: &mut String,
    scenario: &Scenario,
    result: &Result,
) -> std::result::Result<(), Box<dyn Error>> {
    let area = SVGBackend::with_string(svg, (900, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let [limits, goodput] = [0, 1].map(|index| area.split_evenly((2, 1))[index].clone());
    let seconds: u32 = scenario.phases.iter().map(|phase| phase.secs).sum();
    let limits_of = |observed: &Observed| -> Vec<f64> {
        observed.limits.chunks(10).map(|tenths| float(tenths[tenths.len() - 1])).collect()
    };
    let goodput_of = |observed: &Observed| observed.good.iter().copied().map(f64::from).collect();
    let steps = |of: &dyn Fn(&Best) -> f64| -> Vec<(f64, f64)> {
        let mut start = 0.0;
        let mut points = Vec::new();
        for (phase, best) in scenario.phases.iter().zip(&result.best) {
            let end = start + f64::from(phase.secs);
            points.extend([(start, of(best)), (end, of(best))]);
            start = end;
        }
        points
    };
    let limit = Panel { name: "limit", highest: 250.0, of: &limits_of };
    draw(&limits, &limit, seconds, result, steps(&|best| float(best.limit)))?;
    let good = Panel { name: "good calls in a second", highest: 9_000.0, of: &goodput_of };
    draw(&goodput, &good, seconds, result, steps(&|best| best.goodput))?;
    area.present()?;
    Ok(())
}

/// A part of a plot.
struct Panel<'a> {
    name: &'static str,
    highest: f64,
    /// Returns the value of each second of a phase.
    of: &'a dyn Fn(&Observed) -> Vec<f64>,
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    panel: &Panel<'_>,
    seconds: u32,
    result: &Result,
    best: Vec<(f64, f64)>,
) -> std::result::Result<(), Box<dyn Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..f64::from(seconds), 0.0..panel.highest)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("seconds").y_desc(panel.name).max_light_lines(0).draw()?;
    chart.draw_series(LineSeries::new(best, GRAY.stroke_width(3)))?;
    // The algorithm of the crate last, above the others.
    for index in (0..Algorithm::ALL.len()).rev() {
        let values = result.of[index].1.iter().flat_map(panel.of);
        let points = (0..seconds).map(f64::from).zip(values);
        let width = if Algorithm::ALL[index] == Algorithm::Headroom { 2 } else { 1 };
        let color = COLORS[index];
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(width)))?
            .label(Algorithm::ALL[index].name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn float(number: u64) -> f64 {
    number as f64
}
