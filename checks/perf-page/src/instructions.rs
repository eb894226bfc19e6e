//! The table of instructions, from the baselines of `.ci/instructions`.

use std::collections::HashMap;

use crate::format;

/// The operations of the crate, by their names in the baseline.
pub(crate) const OPERATIONS: &[(&str, &str)] = &[
    ("record one event", "add_at"),
    ("record a success and its response time", "record_success_at"),
    ("record the same in a histogram", "record_success_histogram_at"),
    ("enter a `ResourceNode` and succeed", "enter_and_succeed_at"),
    ("look a resource up by its name, enter it and succeed", "look_up_enter_and_succeed_at"),
    ("the first record of a thread in a bucket", "rollover"),
    ("read the rate of a second", "qps_at_2"),
    ("read it while 256 threads idle", "qps_beside_idle_at"),
    ("read four quantiles of a minute again, no bucket sealed since", "quantiles_at_120"),
    ("`SlidingWindowLimiter` admits", "sliding_admitted_at"),
    ("`TokenBucket` admits", "token_admitted_at"),
    ("`Keyed` admits", "keyed_admitted_at"),
    ("a call through `CircuitBreaker`", "circuit_accepted_at"),
    ("a call through `AdaptiveLimiter`", "adaptive_accepted_at"),
    ("a call through `AdaptiveLimiter`, 50 million in a second", "adaptive_busy_accepted_at"),
];

/// The cost of a layer for a request of axum: the operations of the baseline of `leaparray-tower`
/// from which the request without a layer is subtracted.
const LAYERS: &[(&str, &str)] = &[
    ("`leaparray-tower` adds to a request", "axum_with_layer"),
    ("the same with a limiter", "axum_with_limiter"),
    ("the same with a limiter by key", "axum_by_key"),
    ("the same with rules", "axum_with_rules"),
    (
        "the least layer that finds the resource by the route and counts the class, adds",
        "axum_with_least_by_route",
    ),
    ("a layer that does nothing, with a body of its own, adds", "axum_with_own_body"),
];

/// The decisions of the baseline of `leaparray-rules`, each by three kinds of limiters.
const DECISIONS: &[(&str, &str)] = &[
    ("a decision of a bucket", "bucket"),
    ("the same of a limit in flight", "in_flight"),
    ("the same of a bucket for each key", "keyed"),
    ("the same of these three together", "three"),
    ("a request that enters a resource, and is limited by a bucket", "enter"),
];

/// The instructions of an operation, and those of them that lock the bus.
type Counts = [f64; 2];

/// Returns the table, from the baselines of the crate and of `leaparray-tower`.
pub(crate) fn table(baseline: &str, tower: &str) -> Result<String, String> {
    let (of_crate, of_tower) = (parse(baseline)?, parse(tower)?);
    let find = |baseline: &HashMap<&str, Counts>, name: &str| {
        baseline.get(name).copied().ok_or(format!("no baseline of {name}"))
    };
    let mut rows = Vec::new();
    for (what, name) in OPERATIONS {
        rows.push(row(what, find(&of_crate, name)?));
    }
    let alone = find(&of_tower, "axum_alone")?;
    for (what, name) in LAYERS {
        let with = find(&of_tower, name)?;
        rows.push(row(what, [with[0] - alone[0], with[1] - alone[1]]));
    }
    Ok(format::table(1, &["operation at a given time", "instructions", "with a bus lock"], rows))
}

/// Returns the table of decisions by rules, from the baseline of `leaparray-rules`.
pub(crate) fn rules_table(baseline: &str) -> Result<String, String> {
    const KINDS: [&str; 3] = ["by_hand", "that_can_change", "by_rules"];
    let counts = parse(baseline)?;
    let rows = DECISIONS.iter().map(|(what, name)| {
        let found = KINDS.map(|kind| counts.get(&*format!("{name}_{kind}")).copied());
        let [Some(by_hand), Some(replaceable), Some(by_rules)] = found else {
            return Err(format!("a baseline of {name} is missing"));
        };
        let cell = |[instructions, locks]: Counts| {
            format!("{} ({})", format::grouped(instructions), format::grouped(locks))
        };
        let mut cells = vec![(*what).to_owned()];
        cells.extend([by_hand, replaceable, by_rules].map(cell));
        cells.extend([by_hand, replaceable].map(|of| format!("{:.2}", by_rules[0] / of[0])));
        Ok(cells)
    });
    let head =
        ["operation", "by hand", "by hand, replaceable", "by rules", "÷ by hand", "÷ replaceable"];
    Ok(format::table(1, &head, rows.collect::<Result<Vec<_>, _>>()?))
}

fn row(what: &str, [instructions, locks]: Counts) -> Vec<String> {
    vec![what.to_owned(), format::grouped(instructions), format::grouped(locks)]
}

fn parse(baseline: &str) -> Result<HashMap<&str, Counts>, String> {
    let lines = baseline.lines().filter(|line| !line.starts_with('#'));
    let counts = lines.map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [name, instructions, locks] => {
            let counts = instructions.parse().ok().zip(locks.parse().ok());
            counts.map(|(instructions, locks)| (name, [instructions, locks]))
        }
        _ => None,
    });
    counts.collect::<Option<_>>().ok_or("a line of a baseline has another form".to_owned())
}
