//! The report of the middleware, for one processor. The text is in `report.md`.

use super::stacks::{
    self, BARE, OURS, OURS_WITH_LIMITER, PEERS, PROMETHEUS_AND_GOVERNOR, Stack, WITHOUT_SUBSCRIBER,
};
use super::{Measured, requests, sockets};
use crate::goals::Goal;
use crate::report::method::{method, versions};
use crate::report::tables;
use crate::scenarios::crowd::Crowd;

/// The crates whose versions the report lists.
const CRATES: &str =
    "leaparray leaparray-tower axum axum-prometheus tower-http tower_governor hyper tokio";

const NONE: &str = "–";

pub(super) fn document(measured: &Measured) -> String {
    let run = &measured.run;
    format!(
        include_str!("report.md"),
        processor = run.processor,
        method = method(run),
        descriptions = descriptions(),
        requests = tables::costs(&run.results, &requests::rows()),
        added = added_table(measured),
        counts = counts(measured),
        goals = goals_table(measured),
        connections = sockets::CONNECTIONS,
        per_second = per_second(measured),
        lost = tables::lost(&run.results),
        versions = versions(run, CRATES),
    )
}

fn descriptions() -> String {
    let rows = stacks::all().map(|stack| format!("{} | {}", stack.name, stack.description));
    tables::table("service | what is measured", rows).replace("---:", "---")
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
pub(super) fn goals(measured: &Measured) -> Vec<Goal> {
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
            let (case, unit, crowd) =
                (format!("{unit} that {case}"), unit.into(), Crowd::of(threads));
            goals.push(Goal { case, crowd, measured, unit, at_most });
        }
    }
    goals
}

fn goals_table(measured: &Measured) -> String {
    let rows = goals(measured)
        .into_iter()
        .map(|goal| format!("{} | {} | {}", goal.case, goal.crowd.record, tables::outcome(&goal)));
    tables::table("goal | threads | measured", rows)
}

/// Returns a table of what each layer adds to axum alone.
fn added_table(measured: &Measured) -> String {
    let rows = stacks::all().filter(|stack| stack.name != BARE.name).map(|stack| {
        let costs = COSTS.map(|(_, _, cost)| shown(added(measured, cost, &stack), tables::nanos));
        format!("{} | {}", stack.name, costs.join(" | "))
    });
    tables::table("added by | instructions | ns, 1 thread | ns, 2 threads", rows)
}

/// Returns a table of the instructions, the allocations and their bytes of a request.
fn counts(measured: &Measured) -> String {
    let rows = stacks::all().map(|stack| {
        let counts = measured.counted.of(&stack);
        let instructions = shown(counts.instructions.map(f64::round), tables::nanos);
        let [allocations, bytes] = [counts.allocations, counts.bytes]
            .map(|count| shown(count, |count| format!("{}", (count * 100.0).round() / 100.0)));
        format!("{} | {instructions} | {allocations} | {bytes}", stack.name)
    });
    tables::table("service | instructions | allocations | bytes allocated", rows)
}

fn per_second(measured: &Measured) -> String {
    let per_second = |stack| sockets::per_second(&measured.run.results, stack);
    let bare = per_second(&BARE);
    let rows = WITHOUT_SUBSCRIBER.iter().map(|stack| {
        let count = per_second(stack);
        let share = count.zip(bare).map(|(count, bare)| count / bare * 100.0);
        let share = shown(share, |share| format!("{share:.1} %"));
        format!("{} | {} | {share}", stack.name, shown(count, tables::nanos))
    });
    tables::table("service | requests per second | of axum alone", rows)
}

fn shown(number: Option<f64>, show: impl Fn(f64) -> String) -> String {
    number.map_or(NONE.to_owned(), show)
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
        assert_eq!((goal.measured, goal.at_most), (1_500.0, 1_000.0));
    }
}
