//! Loading what the reads of many arrays are about to load.

use std::ops::RangeInclusive;

use super::super::recorders::found_recorder;
use super::{MetricArray, Moment, Numbers};
use crate::metric::MetricEvent;
use crate::metric_array::latency::LatencyRecorder;
use crate::sync::Ordering;

impl MetricArray {
    /// Loads a word of each cache line that a read of the buckets with those numbers loads in a
    /// stage, from 0 to [`STAGES`](Self::STAGES) − 1.
    ///
    /// The lines of a stage are found through those of the stages before, so a read of one array
    /// waits for one line after the other. If a stage is done for many arrays before the next
    /// stage, the processor fetches their lines at the same time. The result has no meaning. The
    /// caller passes it to `black_box`, so that the loads are not removed.
    pub(crate) fn load_ahead(&self, stage: usize, numbers: &RangeInclusive<u64>) -> u64 {
        match stage {
            // Relaxed: the value is not used.
            0 => self.newest.load(Ordering::Relaxed),
            1 => self.load_index(numbers),
            2 => self.load_counts(numbers),
            stage => self.load_bins(stage - 3),
        }
    }

    /// The number of stages.
    pub(crate) const STAGES: usize = 3 + LatencyRecorder::STAGES;

    /// Loads the history's head and slots, and the pointers to cells.
    fn load_index(&self, numbers: &RangeInclusive<u64>) -> u64 {
        let moment = Moment::of(self);
        let mut loaded = moment.stamp();
        moment
            .for_each_slot(Numbers::of(numbers), |history, slot| loaded ^= history.slot_word(slot));
        self.cells.for_each_present(|_| loaded ^= 1);
        loaded
    }

    /// Loads the rows and their bins, the descriptor, and the cells.
    fn load_counts(&self, numbers: &RangeInclusive<u64>) -> u64 {
        let moment = Moment::of(self);
        let mut loaded = 0;
        moment.for_each_slot(Numbers::of(numbers), |history, slot| {
            let row = history.row_in(slot);
            // Two words, since a row may extend over two lines.
            loaded ^= row.map_or(0, |row| row.bucket() ^ row.event(MetricEvent::Cancelled));
            loaded ^= history.bins_in(slot).map_or(0, |bins| bins.first_word().into());
        });
        loaded ^= moment.descriptor().map_or(0, |it| it.gauge().ended);
        self.cells.for_each_present(|cell| loaded ^= cell.state().0 ^ cell.ended());
        loaded
    }

    /// Loads the bins of the buckets that are not sealed.
    fn load_bins(&self, stage: usize) -> u64 {
        let Some(config) = self.histogram else { return 0 };
        let mut loaded = 0;
        self.cells.for_each_present(|cell| {
            let recorder = found_recorder(cell, config);
            loaded ^= recorder.map_or(0, |recorder| recorder.load_ahead(stage));
        });
        loaded
    }
}
