//! The merged bins of sealed buckets, which a thread keeps from one read of a window to the next.
//!
//! A read of many buckets adds up a list of bins for each. Between two reads, few lists change: a
//! bucket is sealed, another one leaves the window. So a thread that reads a window again keeps the
//! sums, and a copy of each list in them. Its next read subtracts the copies of the rows that have
//! left, and adds the rows that are new.
//!
//! # Correctness
//!
//! The merge is private to its thread, and adds nothing to the protocol of the
//! [history](crate::metric_array::history::History). It relies on two properties:
//!
//! - *The sums are those of the copies.* What is subtracted is what was added, whether it was a row
//!   or a mixture of two. Sums wrap around, as those of the `Collector`, so a subtraction undoes
//!   an addition exactly.
//! - *A row does not change while it is in a slot, and no two rows of a slot have the same word*,
//!   since the tag of the word grows. A record in a bucket that is sealed already, by a slow
//!   thread, publishes another row with the sum of both, so the word changes.
//!
//! A read replaces each copy whose word differs from the word of the slot, and validates the head.
//! If the head has not moved, the words and the new copies are of one moment. A copy that was made
//! earlier, under the same word, is of the same row: while the row is in the slot, no thread fills
//! it. If the head has moved, the read is repeated. A copy that is a mixture is then replaced: the
//! row was filled again, so it had left its slot, and the acquire fence of the validation makes a
//! later load of the slot return a later word.

use std::cell::Cell;

use super::super::history::History;
use crate::histogram::HistogramConfig;
use crate::metric::Counts;
use crate::metric_array::latency::{BinSums, CopiedBins};
use crate::sync::thread_local;

/// The number of merges that a thread keeps.
const MERGES: usize = 4;

/// The number of keys that a thread remembers to have read without a merge. A thread that reads
/// more windows in turn makes no merges, since none would be used again.
const REMEMBERED: usize = 4;

/// The fewest slots of a window with a merge. Adding up fewer rows takes less time. Tests and
/// models have windows of few slots.
const LEAST_SLOTS: usize = if cfg!(any(test, loom)) { 1 } else { 4 };

/// The most slots of a window with a merge, and the most words that it copies: bounds of its
/// memory.
const MOST_SLOTS: usize = 1_024;
const MOST_WORDS: usize = 1 << 16;

thread_local! {
    static OF_THREAD: Cell<Option<Box<Merges>>> = const { Cell::new(None) };
}

/// The id of a window and the number of buckets of a read: a window may be read by views of several
/// lengths.
type Key = (u64, u64);

/// The merges of one thread.
#[derive(Debug, Default)]
struct Merges {
    /// The most recently used one first.
    kept: Vec<(Key, MergedRows)>,
    /// The last reads without a merge.
    read: [Key; REMEMBERED],
    next: usize,
}

/// The sums of the rows of a window.
#[derive(Debug, Default)]
pub(crate) struct MergedRows {
    /// The moment that was merged last.
    as_of: Option<MergedMoment>,
    rows: Vec<MergedRow>,
    counts: Counts,
    bins: BinSums,
    /// The words for which the copies have memory.
    words: usize,
    is_too_large: bool,
}

/// A head, and the first and last of the buckets of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MergedMoment {
    pub(crate) stamp: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// A row that is in the sums, or none.
#[derive(Debug, Default)]
struct MergedRow {
    /// The word of the slot with the row; 0 if none is in the sums.
    word: u64,
    bucket: u64,
    counts: Counts,
    bins: CopiedBins,
}

/// Calls `read` with the calling thread's merge of that window, which has `slots` slots, for
/// reads of `buckets` buckets; with `None` if a read without a merge is better.
pub(crate) fn with_merged<R>(
    key: Key,
    slots: usize,
    config: HistogramConfig,
    read: impl FnOnce(Option<&mut MergedRows>) -> R,
) -> R {
    if !(LEAST_SLOTS..=MOST_SLOTS).contains(&slots) {
        return read(None);
    }
    // Taken out, and not borrowed: a panic leaves no merge behind.
    let mut of_thread = OF_THREAD.try_with(Cell::take).ok().flatten().unwrap_or_default();
    let mut merged = of_thread.find(key, slots, config).filter(|merged| !merged.is_too_large);
    let result = read(merged.as_deref_mut());
    if let Some(merged) = merged {
        merged.bound();
    }
    let _ = OF_THREAD.try_with(|cell| cell.set(Some(of_thread)));
    result
}

impl Merges {
    /// Returns the merge of a window; makes one if the thread has read the window before.
    fn find(&mut self, key: Key, slots: usize, config: HistogramConfig) -> Option<&mut MergedRows> {
        let found = self.kept.iter().position(|(kept, _)| *kept == key);
        if let Some(index) = found {
            self.kept[..=index].rotate_right(1);
        } else {
            if !self.read.contains(&key) {
                self.read[self.next] = key;
                self.next = (self.next + 1) % REMEMBERED;
                return None;
            }
            self.kept.truncate(MERGES - 1);
            self.kept.insert(0, (key, MergedRows::new(slots, config)));
        }
        self.kept.first_mut().map(|(_, merged)| merged)
    }
}

impl MergedRows {
    fn new(slots: usize, config: HistogramConfig) -> Self {
        Self {
            rows: std::iter::repeat_with(MergedRow::default).take(slots).collect(),
            bins: BinSums::new(config),
            ..Self::default()
        }
    }

    /// Makes this the sums of the rows of a moment, or of some mixture if the moment is not valid.
    #[inline]
    pub(crate) fn update(&mut self, moment: MergedMoment, history: Option<&History>) {
        if self.as_of != Some(moment) {
            self.replace_rows(moment, history);
        }
    }

    #[inline(never)]
    fn replace_rows(&mut self, moment: MergedMoment, history: Option<&History>) {
        let Self { rows, bins, words, .. } = self;
        let is_wanted = |bucket: u64| (moment.first..=moment.last).contains(&bucket);
        let mut is_changed = false;
        for (slot, merged) in rows.iter_mut().enumerate() {
            let word = history.map_or(0, |history| history.slot_word(slot));
            let is_merged = merged.word != 0;
            if is_merged && merged.word == word && is_wanted(merged.bucket) {
                continue;
            }
            let row = history.and_then(|history| history.row(word));
            let wanted = row.filter(|row| is_wanted(row.bucket()));
            if wanted.is_none() && !is_merged {
                continue;
            }
            is_changed = true;
            *words -= merged.bins.capacity();
            bins.subtract(&merged.bins);
            merged.bins.replace(wanted.and_then(|_| history?.bins_of(word)));
            bins.add(&merged.bins);
            *words += merged.bins.capacity();
            merged.word = 0;
            if let Some(row) = wanted {
                (merged.word, merged.bucket, merged.counts) = (word, row.bucket(), row.counts());
            }
        }
        if is_changed {
            bins.trim();
            // Not by subtraction: events saturate, and extremes have no inverse.
            self.counts = Counts::ZERO;
            for row in self.rows.iter().filter(|row| row.word != 0) {
                self.counts.add(&row.counts);
            }
        }
        self.as_of = Some(moment);
    }

    /// Drops the copies if they take too much memory. Then the window has no merge any more.
    fn bound(&mut self) {
        if self.words > MOST_WORDS {
            *self = Self { is_too_large: true, ..Self::default() };
        }
    }

    /// Returns the counts of the rows.
    pub(crate) const fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) const fn bins(&self) -> &BinSums {
        &self.bins
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::{ManualClock, SlidingWindow, Timestamp, WindowConfig};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Fills 64 buckets with `spread` response times each, reads them three times, and returns the
    /// words for which this thread keeps copies.
    fn kept_words(spread: i32) -> usize {
        let config = WindowConfig::new(64, 64 * SECOND).unwrap();
        let clock = ManualClock::new(Timestamp::from_secs(10));
        let scale = HistogramConfig::with_scale(8).unwrap();
        let window = SlidingWindow::with_histogram(config, scale, clock);
        for _ in 0..64 {
            window.clock().advance(SECOND);
            for exponent in 0..spread {
                window.record_success(Duration::from_secs_f64(1.02_f64.powi(exponent) * 1e-5));
            }
        }
        for _ in 0..3 {
            let count = window.now().histogram().map_or(0, |it| it.count());
            assert_eq!(count, 64 * u64::from(spread.unsigned_abs()));
        }
        let mut all = OF_THREAD.take().expect("the thread has read a window");
        let (_, merged) = all.kept.pop().expect("the window was read again");
        merged.rows.iter().map(|row| row.bins.capacity()).sum()
    }

    #[test]
    fn copies_of_long_lists_are_dropped() {
        assert!((64..=MOST_WORDS).contains(&kept_words(10)));
        assert_eq!(kept_words(1_000), 0);
    }
}
