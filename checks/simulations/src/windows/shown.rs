//! The check of the sums that a reader shows for a second.

use std::collections::HashMap;

use leaparray::EventCounts;
use leaparray_redis::fleet::{FleetWindow, ProcessId, ProcessState};

use super::truth::{Truth, plus};
use super::violations::{Check, Violations};

/// A process in a second, as a reader shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShownProcess {
    pub(super) number: usize,
    pub(super) is_present: bool,
    pub(super) is_waiting: bool,
    pub(super) is_lost: bool,
}

/// Returns the processes of a second, by their numbers, and checks that the sums are the truth of
/// the present ones.
pub(super) fn check(
    window: &FleetWindow,
    numbers: &HashMap<ProcessId, usize>,
    truth: &Truth,
    violations: &mut Violations,
) -> Vec<ShownProcess> {
    let second = window.seconds.start;
    let mut sums = vec![(EventCounts::default(), 0); truth.keys().len()];
    let mut total = EventCounts::default();
    let mut shown = Vec::with_capacity(window.processes.len());
    for row in &window.processes {
        let number = numbers[&row.id];
        let mut of_process = EventCounts::default();
        if row.present == 1 {
            for (resource, totals) in truth.resources(number, second) {
                of_process += &totals;
                sums[resource] = (plus(&sums[resource].0, &totals), sums[resource].1 + 1);
            }
        }
        total += &of_process;
        let counts = row.counts.metrics.counts;
        let states = [row.present, row.waiting, row.missing];
        let is_right = counts == of_process && row.expected == 1 && states.iter().sum::<u64>() == 1;
        violations.check(Check::Sums, is_right, || {
            format!("second {second}: {row:?}, and not {of_process:?}")
        });
        shown.push(ShownProcess {
            number,
            is_present: row.present == 1,
            is_waiting: row.waiting == 1,
            is_lost: row.state == ProcessState::Lost,
        });
    }
    let found = window.total.metrics.counts;
    violations.check(Check::Sums, found == total, || {
        format!("second {second}: the total is {found:?}, and not {total:?}")
    });
    check_resources(window, truth, &sums, &total, violations);
    shown.sort_unstable_by_key(|it| it.number);
    shown
}

/// Checks each resource. The ones for which there was no room are only in the total.
fn check_resources(
    window: &FleetWindow,
    truth: &Truth,
    sums: &[(EventCounts, u64)],
    total: &EventCounts,
    violations: &mut Violations,
) {
    let mut rows = window.left_out.metrics.counts;
    let mut count = window.left_out_rows;
    for row in &window.resources {
        let counts = row.counts.metrics.counts;
        rows += &counts;
        count += row.processes;
        let position = truth.keys().iter().position(|it| *it == row.key);
        let of = position.map_or((EventCounts::default(), 0), |it| sums[it]);
        let is_right = if window.left_out_rows == 0 {
            (counts, row.processes) == of
        } else {
            counts.max(&of.0) == of.0 && row.processes <= of.1
        };
        violations.check(Check::Sums, is_right, || format!("{row:?}, and not {of:?}"));
    }
    let expected: u64 = sums.iter().map(|it| it.1).sum();
    violations.check(Check::Sums, rows == *total && count == expected, || {
        format!(
            "{:?}: {count} rows with {rows:?}, and not {expected} with {total:?}",
            window.seconds
        )
    });
}
