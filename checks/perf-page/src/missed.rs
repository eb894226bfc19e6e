//! The goals that are missed, with a reason and without one.

use crate::format;
use crate::page::Column;
use crate::{Crowd, Value};

/// Some goals of a program that are missed.
struct Goals {
    program: &'static str,
    /// Returns whether a value is one of these.
    is_about: fn(&Value) -> bool,
}

/// Goals that are missed for a reason.
struct Explained {
    goals: Goals,
    /// The beginning of a sentence. `{measured}` and `{goal}` stand for the values that are missed,
    /// and their goals.
    what: &'static str,
    /// The end of the sentence.
    reason: &'static str,
}

/// Goals that are missed for a reason that is not known.
struct Unexplained {
    goals: Goals,
    what: &'static str,
    unit: &'static str,
}

const fn explained(
    program: &'static str,
    is_about: fn(&Value) -> bool,
    what: &'static str,
    reason: &'static str,
) -> Explained {
    Explained { goals: Goals { program, is_about }, what, reason }
}

const fn unexplained(
    program: &'static str,
    is_about: fn(&Value) -> bool,
    what: &'static str,
    unit: &'static str,
) -> Unexplained {
    Unexplained { goals: Goals { program, is_about }, what, unit }
}

const EXPLAINED: &[Explained] = &[
    explained(
        "",
        |it| it.unit.contains("a raw counter read"),
        "A record, or a request of a `ResourceNode`, takes {measured} × as long as a read of the \
         time-stamp counter, not {goal} ×",
        "because the processor overlaps little of the read with what follows: the least that \
         counts by bucket takes nearly as long as a record, and a request reads the counter twice",
    ),
    explained(
        "",
        |it| it.unit.ends_with("each additional cell"),
        "A rate or a sum takes {measured} ns, not {goal} ns, for each further thread that records",
        "because the counts of a thread are behind a pointer, in two cache lines: adding up as \
         many plain cells takes about as long",
    ),
    explained(
        "",
        |it| it.case.contains("snapshot_at") && it.crowd != Crowd::of(1),
        "A snapshot takes {measured} ns, not {goal} ns, while 63 other threads record, while 256 \
         idle, or after 1,024 have ended",
        "because the number of requests in flight may be in the cells of such threads, too",
    ),
    explained(
        "",
        |it| it.case.contains("over the last") && it.crowd == Crowd::IDLE,
        "A sum while 256 threads idle takes {measured} × as long as without them, not {goal} ×",
        "because the cell of the thread that records is in a group of cells that a read finds by \
         one pointer more",
    ),
    explained(
        "",
        |it| it.case.starts_with("roll over") && it.crowd == Crowd::of(1),
        "The first record in a bucket takes {measured} × as long as allocating a bucket and \
         storing it, not {goal} ×",
        "because it also adds up the sums of the window, so that a read need not",
    ),
    explained(
        "",
        |it| it.case.starts_with("enter each of 10000 resources"),
        "With 10,000 resources in turn, a request takes {measured} × as long as with 100, not \
         {goal} ×",
        "because they do not fit the second cache of a core: the time of adding to as many cache \
         lines of plain records grows by more",
    ),
    explained(
        "histograms",
        |it| it.case.starts_with("record with leaparray, scale"),
        "A record in a histogram takes {measured} × as long as a read of the counter, not {goal} ×",
        "because the processor overlaps little of the read with what follows: the least that \
         counts a response time by bucket takes two thirds of it",
    ),
    explained(
        "histograms",
        |it| it.case.starts_with("rotate"),
        "The first record in a bucket takes {measured} × as long with a histogram, not {goal} ×",
        "because it also seals the bins of the bucket before",
    ),
    explained(
        "limiters",
        |it| it.case == "`SlidingWindowLimiter`, admitted" && it.unit == "× one word, admitted",
        "`SlidingWindowLimiter` admits in {measured} × the time of one word on two threads, not \
         {goal} ×",
        "because both read the clock; at a given time, it is below a fifth",
    ),
    explained(
        "keyed",
        |it| it.case.ends_with(", refused"),
        "A refusal of one hot key takes {measured} × as long as by `governor`, not {goal} ×",
        "because `Keyed` counts the refusal, and `governor` only reads",
    ),
    explained(
        "rules",
        |it| it.case.starts_with("rules: ") && !it.case.ends_with("10,000 rules"),
        "With 1 or 10 rules, a decision takes {measured} × as long as by hand, not {goal} ×",
        "because it takes the version that its thread keeps, and compares the number of that \
         version with the newest one twice: see the instructions above",
    ),
    explained(
        "rules",
        |it| it.case.starts_with("rules: ") && it.case.ends_with("10,000 rules"),
        "With 10,000 rules, a decision or a request takes {measured} × as long as by hand, not \
         {goal} ×",
        "because the limiter is found by a word of the resource, which is one line more out of the \
         second cache of the core; the least that can be replaced takes as long as the rules",
    ),
    explained(
        "leases",
        |it| it.case.starts_with("`LeasedLimiter`") && it.crowd == Crowd::of(2),
        "`LeasedLimiter` takes {measured} × as long as `SlidingWindowLimiter` on two threads, not \
         {goal} ×",
        "because a process has its permits in one word, and the window divides them among threads",
    ),
    explained(
        "middleware",
        |it| it.unit == "instructions",
        "`leaparray-tower` adds {measured} instructions to a request, not {goal}",
        "because the cheapest other layer, `tower_governor`, counts nothing",
    ),
    explained(
        "middleware",
        |it| it.unit == "ns",
        "It adds {measured} ns, not {goal} ns",
        "for the same reason",
    ),
];

const UNEXPLAINED: &[Unexplained] = &[
    unexplained(
        "",
        |it| it.case.starts_with("first record of a thread"),
        "the first record of a thread in a bucket while another thread records, median",
        "ns",
    ),
    unexplained(
        "",
        |it| it.unit.contains("`governor`'s `check`"),
        "a limiter or a breaker decides",
        "× the same decision by `governor`",
    ),
    unexplained(
        "threads",
        |it| it.case == "enter a `ResourceNode` and succeed",
        "enter a `ResourceNode` and succeed, 16 threads",
        "× with one thread",
    ),
    unexplained(
        "limiters",
        |it| it.case.contains("`, limit 1000"),
        "`SlidingWindowLimiter` of 1,000 or 10,000 permits admits, 2 or 8 threads",
        "× one word",
    ),
    unexplained(
        "rules",
        |it| it.case.starts_with("`Rules::apply` changes"),
        "`Rules::apply` changes 1 or 10 rules",
        "× `load_rules` of `sentinel-core`",
    ),
    unexplained(
        "leases",
        |it| it.case.starts_with("`LeasedLimiter`") && it.crowd == Crowd::of(1),
        "`LeasedLimiter` admits at a given time, 1 thread",
        "× an admission by `SlidingWindowLimiter`",
    ),
];

/// A goal that is missed: its program, the name of the processor, and the value.
#[derive(Clone, Copy)]
struct Missed<'a> {
    program: &'a str,
    processor: &'a str,
    value: &'a Value,
}

/// The missed goals that one entry is about.
struct Found {
    measured: String,
    goal: String,
    processors: String,
}

/// The texts of both kinds of missed goals.
#[derive(Debug)]
pub(crate) struct Texts {
    /// A sentence with the reason for each entry.
    pub(crate) explained: String,
    /// A table of the others.
    pub(crate) unexplained: String,
}

/// Returns the goals that are missed. Each of them belongs to one entry of one of the two kinds,
/// and each entry has a missed goal.
pub(crate) fn texts(columns: &[Column]) -> Result<Texts, String> {
    of_entries(columns, EXPLAINED, UNEXPLAINED)
}

fn of_entries(
    columns: &[Column],
    with_reason: &[Explained],
    without: &[Unexplained],
) -> Result<Texts, String> {
    let missed = missed(columns);
    for it in &missed {
        let reasons = with_reason.iter().filter(|entry| entry.goals.have(it)).count();
        let others = without.iter().filter(|entry| entry.goals.have(it)).count();
        let problem = match (reasons, others) {
            (1, 0) | (0, 1) => continue,
            (0, 0) => "a missed goal has no reason, and is not among the unexplained ones",
            (_, 0) => "a missed goal has several reasons",
            (0, _) => "a missed goal is several times among the unexplained ones",
            _ => "a missed goal has a reason, and is among the unexplained ones",
        };
        return Err(format!("{problem}: {}", it.value));
    }
    let mut explained = String::new();
    for Explained { goals, what, reason } in with_reason {
        let Found { measured, goal, processors } =
            goals.find(&missed).ok_or(format!("no goal is missed any more: {what}"))?;
        let what = what.replace("{measured}", &measured).replace("{goal}", &goal);
        explained += &format::wrapped(&format!("- {what}, {reason}. ({processors})"), "  ");
    }
    let mut rows = Vec::new();
    for Unexplained { goals, what, unit } in without {
        let Found { measured, goal, processors } =
            goals.find(&missed).ok_or(format!("no goal is missed any more: {what}"))?;
        let (what, unit) = ((*what).to_owned(), (*unit).to_owned());
        rows.push(vec![what, unit, processors, measured, goal]);
    }
    let head = ["operation", "unit", "processor", "measured", "goal"];
    Ok(Texts { explained, unexplained: format::table(3, &head, rows) })
}

fn missed(columns: &[Column]) -> Vec<Missed<'_>> {
    let mut missed = Vec::new();
    for column in columns {
        for (program, sets) in &column.sets {
            let values = sets.iter().flat_map(|set| &set.values).filter(|it| it.is_missed());
            let processor = column.microarchitecture;
            missed.extend(values.map(|value| Missed { program, processor, value }));
        }
    }
    missed
}

impl Goals {
    fn have(&self, missed: &Missed<'_>) -> bool {
        missed.program == self.program && (self.is_about)(missed.value)
    }

    /// Finds the missed goals of an entry; `None` if there is none.
    fn find(&self, missed: &[Missed<'_>]) -> Option<Found> {
        let about: Vec<_> = missed.iter().filter(|it| self.have(it)).collect();
        let mut processors: Vec<_> = about.iter().map(|it| it.processor).collect();
        processors.dedup();
        Some(Found {
            measured: range(about.iter().map(|it| it.value.measured))?,
            goal: range(about.iter().filter_map(|it| it.value.at_most))?,
            processors: processors.join("; "),
        })
    }
}

/// Writes the lowest and the highest of some numbers.
fn range(numbers: impl Iterator<Item = f64>) -> Option<String> {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let shown = |number: f64| match number {
        1_000.0.. => format::grouped(number),
        _ => number.to_string(),
    };
    let (low, high) = (shown(*numbers.first()?), shown(*numbers.last()?));
    Some(if low == high { low } else { format!("{low} to {high}") })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Set;

    /// Returns a processor on which goals are missed: of `a`, by 2, and of `b`, by 3.
    fn columns() -> Vec<Column> {
        let value = |case: &str, measured| Value {
            case: case.to_owned(),
            crowd: Crowd::of(1),
            measured,
            unit: "ns".to_owned(),
            at_most: Some(1.0),
            spread: None,
        };
        let set = Set { values: vec![value("a", 2.0), value("b", 3.0)], ..Set::default() };
        let sets = BTreeMap::from([(String::new(), vec![set])]);
        vec![Column { id: "a processor".to_owned(), microarchitecture: "Zen 4", sets }]
    }

    const A: Explained = explained("", |it| it.case == "a", "`a`: {measured} > {goal}", "because");
    const B: Unexplained = unexplained("", |it| it.case == "b", "`b`", "ns");

    fn error(with_reason: &[Explained], without: &[Unexplained]) -> String {
        of_entries(&columns(), with_reason, without).expect_err("entries do not fit")
    }

    #[test]
    fn missed_goal_without_a_reason_is_apart() {
        let texts = of_entries(&columns(), &[A], &[B]).expect("an entry for each goal");
        assert_eq!(texts.explained, "- `a`: 2 > 1, because. (Zen 4)\n");
        let rows: Vec<_> = texts.unexplained.lines().skip(2).collect();
        assert_eq!(rows, ["| `b` | ns | Zen 4 | 3 | 1 |"]);
    }

    #[test]
    fn missed_goal_needs_a_reason_or_a_place_among_the_unexplained() {
        let wanted = "a missed goal has no reason, and is not among the unexplained ones";
        assert_eq!(error(&[], &[B]), format!("{wanted}: a\t1\t0\t0\t2\tns\t1"));
        assert_eq!(error(&[A], &[]), format!("{wanted}: b\t1\t0\t0\t3\tns\t1"));
    }

    #[test]
    fn missed_goal_has_one_entry_of_one_kind() {
        let also = unexplained("", |it| it.case == "a", "`a`", "ns");
        let found = error(&[A], &[B, also]);
        assert!(found.contains("has a reason, and is among the unexplained ones"), "{found}");
        assert!(error(&[A, A], &[B]).contains("several reasons"));
        assert!(error(&[A], &[B, B]).contains("several times"));
    }

    #[test]
    fn entry_of_either_kind_needs_a_missed_goal() {
        let with_reason = explained("", |it| it.case == "c", "`c`", "because");
        assert_eq!(error(&[A, with_reason], &[B]), "no goal is missed any more: `c`");
        let without = unexplained("keyed", |it| it.case == "b", "`b` of keyed", "ns");
        assert_eq!(error(&[A], &[B, without]), "no goal is missed any more: `b` of keyed");
    }

    #[test]
    fn entry_with_a_reason_states_it() {
        for Explained { what, reason, .. } in EXPLAINED {
            assert!(["because ", "but ", "for "].iter().any(|it| reason.starts_with(it)), "{what}");
            assert!(!reason.contains("explained"), "{what}");
        }
    }
}
