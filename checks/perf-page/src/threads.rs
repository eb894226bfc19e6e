//! The tables of costs on one thread to many, a table for each machine.

use crate::page::{Column, NOT_MEASURED};
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
        "a request to axum with a layer that does nothing, a router for each thread",
        "a request: a layer that does nothing, a router for each thread",
    ),
    ("a request to axum with `leaparray-tower`, one router", "a request: leaparray-tower"),
    (
        "a request to axum with a layer that does nothing, one router",
        "a request: a layer that does nothing",
    ),
    (
        "read the rate of a second while the other threads record",
        "read the rate of a second while the other threads record",
    ),
    ("`Keyed` admits a request of one hot key", "one hot key: `Keyed`"),
    ("`governor` admits a request of one hot key", "one hot key: `governor` by key"),
    ("a word with a compare-exchange admits a request of one hot key", "one hot key: one word"),
];

/// The numbers of threads.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

const PROGRAM: &str = "threads";

/// Returns the tables.
pub(crate) fn tables(columns: &[Column]) -> Result<String, String> {
    let sets_of = |column| Column::sets(column, PROGRAM).iter().map(move |set| (column, set));
    let tables: Vec<_> =
        columns.iter().flat_map(sets_of).map(|(column, set)| table(column, set)).collect();
    if tables.is_empty() {
        return Err(format!("no file of the program `{PROGRAM}`"));
    }
    Ok(tables.join("\n"))
}

/// Returns the table of a machine, with the numbers of threads that it has cores for.
fn table(column: &Column, set: &Set) -> String {
    let cores = set.cores().unwrap_or(usize::MAX);
    let threads: Vec<_> = THREADS.into_iter().filter(|&threads| threads <= cores).collect();
    let machine = match set.cores() {
        Some(cores) => format!("{}, {cores} cores", column.microarchitecture),
        None => column.microarchitecture.to_owned(),
    };
    let numbers = threads.iter().map(|&threads| match threads {
        1 => "1 thread".to_owned(),
        threads => threads.to_string(),
    });
    let head: Vec<_> = [machine].into_iter().chain(numbers).collect();
    let head: Vec<_> = head.iter().map(String::as_str).collect();
    let rows = OPERATIONS.iter().map(|(what, case)| row(what, case, set, &threads));
    // An operation that has changed since is shown by the other machines.
    let measured = rows.filter(|row| row[1..].iter().any(|cell| cell != NOT_MEASURED));
    format::table(1, &head, measured)
}

/// Returns the row of an operation: its cost on one thread, and those on several threads as
/// multiples of it.
fn row(what: &str, case: &str, set: &Set, threads: &[usize]) -> Vec<String> {
    let cost = |threads| set.value(case, threads, "ns");
    let cell = |threads| match (threads, cost(1), cost(threads)) {
        (1, Some(one), _) => format!("{} ns", format::cost(one)),
        (_, Some(one), Some(cost)) => format!("{:.2}", cost / one),
        _ => NOT_MEASURED.to_owned(),
    };
    [what.to_owned()].into_iter().chain(threads.iter().map(|&it| cell(it))).collect()
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
        let row = |case| row(case, case, &set, &[1, 2, 4]);
        assert_eq!(row("a case"), ["a case", "8.0 ns", "–", "1.25"]);
        assert_eq!(row("another"), ["another", "–", "–", "–"]);
    }

    #[test]
    fn table_has_the_threads_of_the_machine_and_the_operations_that_were_measured() {
        let value = |threads| Value {
            case: "enter a `ResourceNode` and succeed".to_owned(),
            crowd: Crowd::of(threads),
            measured: 8.0,
            unit: "ns".to_owned(),
            at_most: None,
            spread: None,
        };
        let set = Set {
            about: vec![("cores".to_owned(), "2".to_owned())],
            values: vec![value(1), value(2)],
            ..Set::default()
        };
        let column =
            Column { id: "a processor".to_owned(), microarchitecture: "Zen 4", sets: [].into() };
        let table = table(&column, &set);
        let lines: Vec<_> = table.lines().collect();
        let wanted = [
            "| Zen 4, 2 cores | 1 thread | 2 |",
            "|---|---:|---:|",
            "| enter a `ResourceNode` and succeed | 8.0 ns | 1.00 |",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn page_needs_a_file() {
        assert!(tables(&[]).is_err());
    }
}
