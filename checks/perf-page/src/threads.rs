//! The tables of costs on one thread to many, a table for each processor.

use crate::page::Column;
use crate::{Set, format};

/// The operations, and the cases of the program.
const OPERATIONS: &[(&str, &str)] = &[
    ("record a success and its response time", "record a success and its response time"),
    ("enter a `ResourceNode` and succeed", "enter a `ResourceNode` and succeed"),
    (
        "look a resource up by its name, enter it and succeed",
        "look a resource up by its name, enter it and succeed",
    ),
    ("`prometheus` counts a finished request", "prometheus: a finished request"),
    ("add to one counter that all threads share", "`AtomicI64::fetch_add`, one shared counter"),
    (
        "a request to axum with `leaparray-tower`, a router for each thread",
        "a request: leaparray-tower, a router for each thread",
    ),
    (
        "the same with a layer that does nothing",
        "a request: a layer that does nothing, a router for each thread",
    ),
    ("a request to axum with `leaparray-tower`, one router", "a request: leaparray-tower"),
    ("the same with a layer that does nothing", "a request: a layer that does nothing"),
    (
        "read the rate of a second while the other threads record",
        "read the rate of a second while the other threads record",
    ),
    ("`Keyed` admits a request of one hot key", "one hot key: `Keyed`"),
    ("`governor` does the same", "one hot key: `governor` by key"),
    ("a word with a compare-exchange does the same", "one hot key: one word"),
];

/// The numbers of threads.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

const PROGRAM: &str = "threads";

/// Returns the tables.
pub(crate) fn tables(columns: &[Column]) -> Result<String, String> {
    let measured = columns.iter().filter_map(|column| Some((column, column.sets.get(PROGRAM)?)));
    let tables: Vec<_> = measured
        .map(|(column, set)| {
            let head = ["1 thread", "2", "4", "8", "16"];
            let head: Vec<_> = [column.microarchitecture].into_iter().chain(head).collect();
            format::table(1, &head, OPERATIONS.iter().map(|(what, case)| row(what, case, set)))
        })
        .collect();
    if tables.is_empty() {
        return Err(format!("no file of the program `{PROGRAM}`"));
    }
    Ok(tables.join("\n"))
}

/// Returns the row of an operation: its cost on one thread, and those on several threads as
/// multiples of it.
fn row(what: &str, case: &str, set: &Set) -> Vec<String> {
    let cost = |threads| set.value(case, threads, "ns");
    let cell = |threads| match (threads, cost(1), cost(threads)) {
        (1, Some(one), _) => format!("{} ns", format::cost(one)),
        (_, Some(one), Some(cost)) => format!("{:.2}", cost / one),
        _ => "–".to_owned(),
    };
    [what.to_owned()].into_iter().chain(THREADS.map(cell)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Crowd, Value};

    #[test]
    fn row_has_the_cost_of_one_thread_and_multiples_of_it() {
        let value = |threads, measured| Value {
            case: "a case".to_owned(),
            crowd: Crowd::of(threads),
            measured,
            unit: "ns".to_owned(),
            at_most: None,
            spread: None,
        };
        let set = Set { values: vec![value(1, 8.0), value(4, 10.0)], ..Set::default() };
        assert_eq!(row("a case", "a case", &set), ["a case", "8.0 ns", "–", "1.25", "–", "–"]);
        assert_eq!(row("another", "another", &set), ["another", "–", "–", "–", "–", "–"]);
    }

    #[test]
    fn page_needs_a_file() {
        assert!(tables(&[]).is_err());
    }
}
