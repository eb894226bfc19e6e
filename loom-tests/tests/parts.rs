//! Parts of a window alone. Each part has so few atomics that loom can explore most of its models
//! with two preemptions or more. So these models fail without the fences and orderings that only an
//! unlikely execution needs.
#![cfg(loom)]

use leaparray::parts::{BareCell, BareCells, BareDescriptors, BareHistory};
use leaparray::shadow_all_words;
use leaparray_loom_tests::{explore, explore_some};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// The number of executions to run of a model that has too many to explore.
const SOME: usize = 100_000;

/// A history of one slot in which buckets 0 and 1 were sealed.
fn history() -> Arc<BareHistory> {
    let history = Arc::new(BareHistory::new(1));
    history.seal(0, 1);
    history.seal(1, 10);
    history
}

/// One thread seals buckets 2 and 3, and fills the descriptor again that the reader has found
/// current. The reader of bucket 1 finds the bucket and the expired passes as they were at one
/// moment.
#[test]
fn reader_of_a_history_finds_one_moment() {
    explore(Some(2), || {
        let history = history();
        let reader = {
            let history = history.clone();
            thread::spawn(move || history.passes(1))
        };
        history.seal(2, 100);
        history.seal(3, 1_000);
        let found = reader.join().unwrap();
        assert!([[10, 1], [0, 11], [0, 111]].contains(&found), "{found:?}");
    });
}

/// A history of one slot in which buckets 0, 1 and 2 were sealed, the last one with `passes`
/// passes, while another thread reads that bucket. A row is filled again two publications after it
/// has left its slot. So the third publication of this thread fills the row that the reader may
/// have found, with `more` passes. The reader finds the bucket and the expired passes as they were
/// at one moment.
fn explore_reader_of_a_row_that_is_filled_again(passes: u64, more: u64) {
    explore(Some(1), move || {
        let history = history();
        history.seal(2, passes);
        let reader = {
            let history = history.clone();
            thread::spawn(move || history.passes(2))
        };
        history.seal(3, 100);
        history.seal(4, 1_000);
        history.seal(5, more);
        let found = reader.join().unwrap();
        let expired = [0, passes, passes + 100, passes + 1_100].map(|more| 11 + more);
        let [first, rest @ ..] = expired;
        let is_one_moment = found == [passes, first] || rest.map(|it| [0, it]).contains(&found);
        assert!(is_one_moment, "{found:?}");
        assert_eq!(history.passes(5), [more, 1_111 + passes]);
    });
}

/// More passes than a packed row has room for.
const MANY: u64 = 1 << 40;

#[test]
fn reader_of_a_wide_row_that_is_filled_again_finds_one_moment() {
    explore_reader_of_a_row_that_is_filled_again(MANY, 2 * MANY);
}

/// The reader may see the mark of a wide row before the wide row, which the other
/// thread makes.
#[test]
fn reader_of_a_row_that_becomes_wide_finds_one_moment() {
    explore_reader_of_a_row_that_is_filled_again(1, MANY);
}

/// Two threads seal buckets 2 and 3. One of them frees the descriptor that the reader has found
/// current, and the other one fills it again. The reader of bucket 1 finds the bucket and the
/// expired passes as they were at one moment.
#[test]
fn reader_beside_two_publishers_finds_one_moment() {
    explore_some(SOME, Some(2), || {
        let history = history();
        let reader = {
            let history = history.clone();
            thread::spawn(move || history.passes(1))
        };
        let other = {
            let history = history.clone();
            thread::spawn(move || history.seal(2, 100))
        };
        history.seal(3, 1_000);
        other.join().unwrap();
        let found = reader.join().unwrap();
        assert!([[10, 1], [0, 11], [0, 111]].contains(&found), "{found:?}");
    });
}

/// A history of two slots in which buckets 0 to 3 were sealed. One thread seals buckets 4 and 5, by
/// two descriptors, each with another spare row than before. Another thread also seals bucket 5. It
/// may take a descriptor that the first one has freed. Then it fills the row that is spare by then,
/// not the former spare row, which has bucket 4.
#[test]
fn publisher_fills_the_row_that_is_spare_when_it_takes_the_descriptor() {
    explore(Some(1), || {
        let history = Arc::new(BareHistory::new(2));
        (0..4).for_each(|number| history.seal(number, 1));
        let other = {
            let history = history.clone();
            thread::spawn(move || history.seal(5, 1_000))
        };
        history.seal(4, 10);
        history.seal(5, 100);
        other.join().unwrap();
        assert_eq!([4, 5].map(|number| history.passes(number)), [[10, 4], [1_100, 4]]);
    });
}

/// One thread frees two descriptors, the last ones of `before` that were taken, while another takes
/// two. After two further takes, each descriptor was taken once.
fn explore_free_descriptors(before: u32) {
    shadow_all_words();
    explore(Some(3), move || {
        let descriptors = Arc::new(BareDescriptors::default());
        // Descriptor 0 is the current one at the beginning.
        (1..before).for_each(|index| assert_eq!(descriptors.take(), index));
        let freed = [before - 2, before - 1];
        let other = {
            let descriptors = descriptors.clone();
            thread::spawn(move || freed.map(|index| descriptors.give(index)))
        };
        let mut taken = vec![descriptors.take(), descriptors.take()];
        other.join().unwrap();
        taken.extend([descriptors.take(), descriptors.take()]);
        taken.sort_unstable();
        assert_eq!(taken, [before - 2, before - 1, before, before + 1]);
    });
}

#[test]
fn no_free_descriptor_is_lost() {
    explore_free_descriptors(2);
}

/// A thread that takes a descriptor off the stack leaves the descriptor below it on the stack.
#[test]
fn no_free_descriptor_is_lost_beyond_the_first() {
    explore_free_descriptors(4);
}

/// Two threads find the same descriptor free. Only one of them takes it.
#[test]
fn free_descriptor_is_taken_once() {
    explore(None, || {
        let descriptors = Arc::new(BareDescriptors::default());
        let other = {
            let descriptors = descriptors.clone();
            thread::spawn(move || descriptors.take())
        };
        let taken = descriptors.take();
        let other = other.join().unwrap();
        assert!(taken != other && taken != 0 && other != 0, "{taken} and {other}");
    });
}

/// One thread seals the first bucket, and so allocates the memory of its row, while another thread
/// reads the bucket. The reader finds the whole row or nothing.
#[test]
fn reader_beside_the_first_row_finds_it_or_nothing() {
    explore(None, || {
        let history = Arc::new(BareHistory::new(1));
        let reader = {
            let history = history.clone();
            thread::spawn(move || history.passes(1))
        };
        history.seal(1, 1);
        let found = reader.join().unwrap();
        assert!([[0, 0], [1, 0]].contains(&found), "{found:?}");
    });
}

/// One thread publishes while two others read. The publisher or one reader completes the
/// publication, and the other reader relies on that. Each reader finds the state before or after
/// the publication.
#[test]
fn two_readers_of_a_history_find_one_moment_each() {
    explore(Some(2), || {
        let history = history();
        let readers = [(); 2].map(|()| {
            let history = history.clone();
            thread::spawn(move || history.passes(1))
        });
        history.seal(2, 100);
        for reader in readers {
            let found = reader.join().unwrap();
            assert!([[10, 1], [0, 11]].contains(&found), "{found:?}");
        }
    });
}

#[test]
fn counts_of_two_publishers_are_in_one_row() {
    explore(Some(3), || {
        let history = history();
        let other = {
            let history = history.clone();
            thread::spawn(move || history.seal(2, 100))
        };
        history.seal(2, 1_000);
        other.join().unwrap();
        assert_eq!(history.passes(2), [1_100, 11]);
    });
}

/// One thread seals buckets 2 and 3 while another seals bucket 2. Each may complete the steps of
/// the other, and recycle its descriptors. No count is lost.
#[test]
fn publisher_of_two_buckets_beside_another_loses_nothing() {
    explore(Some(1), || {
        let history = history();
        let other = {
            let history = history.clone();
            thread::spawn(move || history.seal(2, 100))
        };
        history.seal(2, 1_000);
        history.seal(3, 10_000);
        other.join().unwrap();
        assert_eq!(history.passes(3), [10_000, 1_111]);
    });
}

/// Calls `bind`, which binds a cell to bucket 2, beside a sweeper that may find the cell idle.
/// Asserts that a reader then finds the cell.
fn assert_bound_cell_is_read(cells: BareCells, sweeps: usize, bind: impl FnOnce(&BareCells)) {
    let cells = Arc::new(cells);
    let sweeper = {
        let cells = cells.clone();
        thread::spawn(move || (0..sweeps).for_each(|_| cells.skip_before(1)))
    };
    bind(&cells);
    sweeper.join().unwrap();
    assert_eq!(cells.bound_to(2), 1);
}

#[test]
fn cell_that_is_bound_while_it_is_found_idle_is_read() {
    explore(None, || {
        let cells = BareCells::default();
        let owned = cells.add(0);
        assert_bound_cell_is_read(cells, 1, |cells| cells.rebind(owned, 2));
    });
}

#[test]
fn retired_cell_that_is_adopted_while_it_is_found_idle_is_read() {
    explore(None, || {
        let cells = BareCells::default();
        cells.retire(cells.add(0));
        assert_bound_cell_is_read(cells, 1, |cells| cells.adopt(2));
    });
}

/// A sweeper stores the number of the newest bucket, and then removes an idle cell from the mask. A
/// reader that misses the cell for that reason sees the number.
#[test]
fn reader_that_misses_an_idle_cell_sees_the_newest_bucket() {
    shadow_all_words();
    explore(None, || {
        let (cells, newest) = (Arc::new(BareCells::default()), Arc::new(AtomicU64::new(0)));
        let _owned = cells.add(0);
        let sweeper = {
            let (cells, newest) = (cells.clone(), newest.clone());
            thread::spawn(move || {
                newest.store(1, Ordering::Relaxed);
                cells.skip_before(1);
            })
        };
        let found = cells.bound_to(0);
        assert!(found == 1 || newest.load(Ordering::Relaxed) == 1);
        sweeper.join().unwrap();
        assert_eq!(cells.bound_to(0), 0);
    });
}

/// The third cell is in a group of its own. Its owner binds it while a sweeper removes the cell and
/// the group from their masks.
#[test]
fn cell_that_is_bound_while_its_group_is_found_idle_is_read() {
    shadow_all_words();
    explore(Some(2), || {
        let cells = BareCells::default();
        let [_, _, owned] = [(); 3].map(|()| cells.add(0));
        assert_bound_cell_is_read(cells, 2, |cells| cells.rebind(owned, 2));
    });
}

/// The fifth cell is in a group of a level. Its owner binds it while a sweeper removes the cell,
/// its group and the levels from their masks.
#[test]
fn cell_that_is_bound_while_its_level_is_found_idle_is_read() {
    shadow_all_words();
    explore(Some(2), || {
        let cells = BareCells::default();
        let [_, _, _, _, owned] = [(); 5].map(|()| cells.add(0));
        assert_bound_cell_is_read(cells, 3, |cells| cells.rebind(owned, 2));
    });
}

#[test]
fn abandoned_cell_is_retired_once() {
    explore(None, || {
        let cells = Arc::new(BareCells::default());
        cells.abandon(cells.add(0));
        let other = {
            let cells = cells.clone();
            thread::spawn(move || cells.retire_abandoned())
        };
        let retired = cells.retire_abandoned();
        assert!(retired ^ other.join().unwrap(), "one of two sweepers retires it: {retired}");
    });
}

/// One thread abandons its idle cell while another sweeps, which may or may not find the cell
/// abandoned. A later sweep finds it: a sweep that has missed it does not count as a check of it.
#[test]
fn sweep_after_an_abandonment_finds_the_cell() {
    explore(None, || {
        let cells = Arc::new(BareCells::default());
        let owned = cells.add(0);
        assert!(!cells.sweep_before(1), "the cell is idle, and has an owner");
        let other = {
            let cells = cells.clone();
            thread::spawn(move || cells.abandon(owned))
        };
        cells.skip_before(1);
        other.join().unwrap();
        assert!(cells.sweep_before(1));
    });
}

/// Two cells are free. While one thread takes the first of them, another thread takes both and
/// gives the first back, so the top of the stack is the same again (ABA). No cell has two owners.
#[test]
fn free_cell_is_taken_once() {
    explore(Some(3), || {
        let [first, second] = [BareCell::take(), BareCell::take()];
        first.give();
        second.give();
        let other = thread::spawn(|| [BareCell::take(), BareCell::take()]);
        let [first, second] = [BareCell::take(), BareCell::take()];
        first.give();
        let [third, fourth] = other.join().unwrap();
        let taken = [second, third, fourth].map(|cell| cell.identity().0);
        assert!(taken[0] != taken[1] && taken[0] != taken[2] && taken[1] != taken[2], "{taken:?}");
    });
}

/// One thread gives a cell back while another takes a cell. If that is the same cell, its state is
/// greater than the state in which it was given back. So a state that is left in a thread cache
/// never matches the state of the next owner.
#[test]
fn state_of_a_cell_only_grows_from_owner_to_owner() {
    explore(Some(3), || {
        let first = BareCell::take();
        let other = thread::spawn(|| BareCell::take().identity());
        let left = first.give();
        let (second, state) = other.join().unwrap();
        assert!(second != first.identity().0 || state > left, "{state} after {left}");
    });
}
