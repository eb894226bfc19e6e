//! The counts of requests as values, and the goals of what the layer adds.

use leaparray_perf_page::{Crowd, Value};

use super::stacks::{self, BARE, OURS, OURS_WITH_LIMITER, PEERS, PROMETHEUS_AND_GOVERNOR, Stack};
use super::{Measured, requests};
use crate::goals::value;

/// Returns the instructions, the allocations and their bytes of a request to each service.
pub(super) fn counts(measured: &Measured) -> Vec<Value> {
    let values = stacks::all().flat_map(|stack| {
        let counts = measured.counted.of(&stack);
        let counts = [
            (counts.instructions.map(f64::round), "instructions"),
            (counts.allocations.map(hundredths), "allocations"),
            (counts.bytes.map(hundredths), "bytes allocated"),
        ];
        counts.map(|(count, unit)| Some(value(requests::case(&stack), count?, unit, None)))
    });
    values.flatten().collect()
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// A cost of a request, as a function of the results and the service.
type Cost = fn(&Measured, &Stack) -> Option<f64>;

/// The costs, by their units. What a layer adds is the difference to [`BARE`].
const COSTS: [(&str, usize, Cost); 3] = [
    ("instructions", 1, |measured, stack| measured.counted.of(stack).instructions),
    ("ns", 1, |measured, stack| nanos(measured, stack, 1)),
    ("ns", 2, |measured, stack| nanos(measured, stack, 2)),
];

fn nanos(measured: &Measured, stack: &Stack, threads: usize) -> Option<f64> {
    measured.run.results.median(&requests::case(stack), Crowd::of(threads))
}

/// Returns the cost that a layer adds to a request.
fn added(measured: &Measured, cost: Cost, stack: &Stack) -> Option<f64> {
    Some((cost(measured, stack)? - cost(measured, &BARE)?).round())
}

/// Returns the goals: the layer adds at most as much as the cheapest of the other crates, and with
/// a limiter at most as much as the two crates that do the same.
pub(super) fn goals(measured: &Measured) -> Vec<Value> {
    let mut goals = Vec::new();
    let comparisons = [
        ("a layer adds to a request, at most the cheapest other crate", OURS, &PEERS[..]),
        (
            "a layer with a limiter adds, at most axum-prometheus and tower_governor",
            OURS_WITH_LIMITER,
            &[PROMETHEUS_AND_GOVERNOR],
        ),
    ];
    for (case, ours, others) in comparisons {
        for (unit, threads, cost) in COSTS {
            let others = others.iter().filter_map(|stack| added(measured, cost, stack));
            let at_most = others.min_by(f64::total_cmp);
            let Some((measured, at_most)) = added(measured, cost, &ours).zip(at_most) else {
                continue;
            };
            let goal = value(format!("{unit} that {case}"), measured, unit, Some(at_most));
            goals.push(Value { crowd: Crowd::of(threads), ..goal });
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Plan;
    use crate::machine::Processor;
    use crate::middleware::counts::{Counted, Counts};
    use crate::quiet::SampleCounts;
    use crate::report::Run;
    use crate::results::Results;

    #[test]
    fn goal_is_the_least_that_another_crate_adds() {
        let instructions = [
            (BARE, 8_000.0),
            (OURS, 9_500.0),
            (PEERS[0], 20_000.0),
            (PEERS[1], 9_000.0),
            (PEERS[2], 10_000.0),
        ];
        let counted = instructions.map(|(stack, count)| {
            (stack.name, Counts { instructions: Some(count), ..Counts::default() })
        });
        let run = Run {
            plan: Plan { rounds: 1, sample: std::time::Duration::ZERO },
            processor: Processor::current(),
            cores: 2,
            results: Results::default(),
            elapsed: std::time::Duration::ZERO,
            samples: SampleCounts::default(),
        };
        let goals = goals(&Measured { run, counted: Counted(counted.to_vec()) });
        let [goal] = &goals[..] else { panic!("nothing else was measured: {goals:?}") };
        assert_eq!((goal.measured, goal.at_most), (1_500.0, Some(1_000.0)));
    }
}
