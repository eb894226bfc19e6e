//! The goals that are missed, with the reasons.

use crate::format;
use crate::page::Column;
use crate::{Crowd, Value};

/// The reason why some goals of a program are missed.
struct Reason {
    program: &'static str,
    /// Returns whether a value is one of these.
    is_about: fn(&Value) -> bool,
    /// A sentence. `{measured}` and `{goal}` stand for the values that are missed, and their goals.
    sentence: &'static str,
}

const REASONS: &[Reason] = &[
    Reason {
        program: "",
        is_about: |it| it.case.starts_with("record a success"),
        sentence: "A success with its response time takes {measured} × a read of the counter, \
                   not {goal} ×: not yet explained.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.starts_with("enter a"),
        sentence: "A request that enters a `ResourceNode` and succeeds takes {measured} × a read \
                   of the counter, not {goal} ×: not yet explained.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.starts_with("record one event"),
        sentence: "An event without a read of the counter takes {measured} × a `fetch_add` on a \
                   counter that one or two threads share, not {goal} ×: not yet explained.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.starts_with("record in 1,000 windows"),
        sentence: "Two threads that record in 1,000 windows in turn take {measured} × a read of \
                   the counter, not {goal} ×: not yet explained.",
    },
    Reason {
        program: "",
        is_about: |it| it.unit == "ns for each additional cell",
        sentence: "A rate or a sum takes {measured} ns for each further thread that records, not \
                   {goal} ns: not yet explained.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.contains("over the last") && it.crowd == Crowd::IDLE,
        sentence: "A rate or a sum takes {measured} × as long beside 256 idle threads, not \
                   {goal} ×: not yet explained, since readers skip the cells of idle threads.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.contains("snapshot_at") && it.crowd == Crowd::IDLE,
        sentence: "A snapshot beside 256 idle threads takes {measured} ns, not {goal} ns, because \
                   the number of requests in flight is in the cells of idle threads, too.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.contains("snapshot_at") && it.crowd == Crowd::ENDED,
        sentence: "A snapshot after 1,024 threads have ended takes {measured} ns, not {goal} ns: \
                   not yet explained.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.starts_with("roll over") && it.crowd == Crowd::of(1),
        sentence: "The first record in a bucket takes {measured} × as long as to allocate a bucket \
                   and to store it, not {goal} ×: not yet explained.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.starts_with("roll over") && it.crowd == Crowd::IDLE,
        sentence: "The first record in a bucket takes {measured} × as long beside 256 idle \
                   threads, not {goal} ×, because it checks up to 32 idle cells.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.starts_with("roll over") && it.crowd == Crowd::ENDED,
        sentence: "The first record in a bucket takes {measured} × as long after 1,024 threads \
                   have ended, not {goal} ×: not yet explained.",
    },
    Reason {
        program: "",
        is_about: |it| it.case.ends_with(", refused"),
        sentence: "A refusal by `WarmUp` or `AdaptiveBreaker` takes {measured} × a refusal by \
                   `governor`, not {goal} ×: not yet explained.",
    },
    Reason {
        program: "feedback",
        is_about: |it| it.case.starts_with("`AdaptiveLimiter`"),
        sentence: "A refusal by `AdaptiveLimiter` on two threads takes {measured} × a refusal by \
                   `governor`, not {goal} ×: not yet explained.",
    },
    Reason {
        program: "feedback",
        is_about: |it| it.case.starts_with("a call through `CircuitBreaker`"),
        sentence: "A call through `CircuitBreaker` takes {measured} × a recorded success, not \
                   {goal} ×, because it includes the admission and the decision on the state.",
    },
    Reason {
        program: "histograms",
        is_about: |it| it.case.starts_with("record with"),
        sentence: "A response time in a histogram takes {measured} × a read of the counter, not \
                   {goal} ×: not yet explained. Without a histogram, a record there already takes \
                   nearly the goal.",
    },
    Reason {
        program: "histograms",
        is_about: |it| it.case.starts_with("four quantiles"),
        sentence: "Four quantiles at scale 5 take {measured} ns, not {goal} ns, because scale 5 \
                   has twice as many bins as scale 4, which meets the goal.",
    },
    Reason {
        program: "histograms",
        is_about: |it| it.case.starts_with("rotate"),
        sentence: "The first record in a bucket takes {measured} × as long with a histogram, not \
                   {goal} ×, because it also seals the bins of the bucket before.",
    },
    Reason {
        program: "keyed",
        is_about: |it| it.case.ends_with(", refused"),
        sentence: "A refusal of one hot key takes {measured} × as long as by `governor`, not \
                   {goal} ×, because `KeyedLimiter` counts the refusal, and `governor` only reads.",
    },
    Reason {
        program: "keyed",
        is_about: |it| it.case.ends_with("`foldhash`"),
        sentence: "An admission by key with `foldhash` takes {measured} × as long as by \
                   `governor`, not {goal} ×: the difference is smaller than the spread of either \
                   side.",
    },
    Reason {
        program: "leases",
        is_about: |it| it.case.starts_with("`LeasedLimiter`"),
        sentence: "`LeasedLimiter` takes {measured} × as long as `SlidingWindowLimiter` on two \
                   threads, not {goal} ×: both sides spread by more than half of their medians.",
    },
    Reason {
        program: "middleware",
        is_about: |it| it.unit == "instructions",
        sentence: "`leaparray-tower` adds {measured} instructions to a request, not {goal}, \
                   because the cheapest other layer, `tower_governor`, counts nothing.",
    },
    Reason {
        program: "middleware",
        is_about: |it| it.unit == "ns",
        sentence: "It adds {measured} ns, not {goal} ns, for the same reason.",
    },
];

/// Returns a list of the goals that are missed. Each missed goal needs a reason, and each reason a
/// missed goal.
pub(crate) fn list(columns: &[Column]) -> Result<String, String> {
    let mut missed = Vec::new();
    for column in columns {
        for (program, set) in &column.sets {
            let values = set.values.iter().filter(|it| it.is_missed());
            missed.extend(values.map(|it| (program.as_str(), column.short_name.as_str(), it)));
        }
    }
    let mut list = String::new();
    for reason in REASONS {
        let is_about = |&(program, _, value): &(&str, &str, &Value)| {
            program == reason.program && (reason.is_about)(value)
        };
        let about: Vec<_> = missed.extract_if(.., |it| is_about(it)).collect();
        if about.is_empty() {
            return Err(format!("no goal is missed any more: {}", reason.sentence));
        }
        let measured = range(about.iter().map(|(.., it)| it.measured));
        let goals = range(about.iter().filter_map(|(.., it)| it.at_most));
        let sentence = reason.sentence.replace("{measured}", &measured).replace("{goal}", &goals);
        let mut names: Vec<_> = about.iter().map(|(_, name, _)| *name).collect();
        names.dedup();
        list += &format::wrapped(&format!("- {sentence} ({})", names.join("; ")), "  ");
    }
    match &missed[..] {
        [] => Ok(list),
        [(.., value), ..] => Err(format!("a missed goal has no reason: {value}")),
    }
}

/// Writes the lowest and the highest of some numbers.
fn range(numbers: impl Iterator<Item = f64>) -> String {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let shown = |number: f64| match number {
        1_000.0.. => format::grouped(number),
        _ => number.to_string(),
    };
    let (low, high) = (numbers.first().copied().map(shown), numbers.last().copied().map(shown));
    match (low, high) {
        (Some(low), Some(high)) if low != high => format!("{low} to {high}"),
        (low, _) => low.unwrap_or_default(),
    }
}
