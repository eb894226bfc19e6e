//! The number of processors.

use std::fs;
use std::num::NonZero;
use std::thread;

/// Returns the number of processors on which threads of this process can run, at least one.
///
/// On Linux, the standard library answers for the calling thread: a thread that is bound to one
/// processor learns of one. Many services bind each of their threads, and any of them may be the
/// first to ask. So this is the number of processors of the machine, if the system tells it. The
/// quota of a container does not count: it shortens the time of its threads, and they still run on
/// many processors at once.
pub(super) fn processors() -> usize {
    let of_thread = thread::available_parallelism().map_or(1, NonZero::get);
    of_machine().map_or(of_thread, |of_machine| of_machine.max(of_thread))
}

/// Returns the number of processors that are online. `None` if there is no such file, as on other
/// systems than Linux, and in Miri, whose isolation ends a program that opens a file.
fn of_machine() -> Option<usize> {
    if cfg!(miri) {
        return None;
    }
    count(fs::read_to_string("/sys/devices/system/cpu/online").ok()?.trim_end())
}

/// Counts the processors of a list such as `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let of_range = |range: &str| {
        let (lowest, highest) = range.split_once('-').unwrap_or((range, range));
        let [lowest, highest] = [lowest, highest].map(|number| number.parse::<usize>().ok());
        highest?.checked_sub(lowest?)?.checked_add(1)
    };
    list.split(',').try_fold(0_usize, |sum, range| sum.checked_add(of_range(range)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_a_list_are_counted() {
        let counts = ["0", "0-15", "0-3,8", "1,3-4"].map(count);
        assert_eq!(counts, [Some(1), Some(16), Some(5), Some(3)]);
        let others = ["", "a", "3-1", "0-", "0,,1", "0-18446744073709551615"].map(count);
        assert_eq!(others, [None; 6]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn thread_that_is_bound_to_a_processor_knows_all_of_them() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

        let unbound = processors();
        let bind = || {
            let allowed = sched_getaffinity(None).expect("a thread can ask for its processors");
            let first = (0..CpuSet::MAX_CPU).find(|&it| allowed.is_set(it)).expect("a processor");
            let mut one = CpuSet::new();
            one.set(first);
            sched_setaffinity(None, &one).expect("a thread can be bound");
            (thread::available_parallelism().map(NonZero::get).ok(), processors())
        };
        let bound = thread::scope(|scope| scope.spawn(bind).join().expect("no panic"));
        let expected = if of_machine().is_some() { unbound } else { 1 };
        assert_eq!(bound, (Some(1), expected));
    }
}
