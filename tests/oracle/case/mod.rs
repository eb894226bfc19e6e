//! One comparison of a window with the oracle: a geometry, an origin of time, and turns.
//!
//! Shared: proptest makes cases of random bytes, the fuzz target of bytes that libFuzzer evolves, and
//! the replay of those it has kept. [`bytes`] says what each byte means.

mod bytes;
mod compare;
mod geometry;
mod operation;
mod oracle;
mod record;

use leaparray::{CurrentBucket, ManualClock, MetricBucket, SlidingWindow, Timestamp};

use compare::Comparison;

use geometry::{Geometry, Step};
use operation::{Operation, Through};
use oracle::{Oracle, Place};
use record::Record;

/// What is done to a window, and everything that is needed to do it once more.
#[derive(Debug)]
pub(crate) struct Case {
    geometry: Geometry,
    origin: u64,
    turns: Vec<Turn>,
}

/// Time moves, then something is done.
#[derive(Clone, Copy, Debug)]
struct Turn {
    step: Step,
    operation: Operation,
}

impl Turn {
    const fn only(step: Step) -> Self {
        Self { step, operation: Operation::Nothing }
    }
}

/// What happens after every case: the window is left alone, and empties.
const AFTERWARDS: [Turn; 4] = [
    Turn::only(Step::ToTheEdge),
    Turn::only(Step::Nanos(1)),
    Turn::only(Step::Laps(1)),
    Turn::only(Step::Laps(100)),
];

impl Case {
    /// Does it, and compares everything that can be read after each turn.
    ///
    /// # Panics
    ///
    /// If the window and the oracle differ. The message has all turns up to there.
    pub(crate) fn check(&self) {
        let clock = ManualClock::new(Timestamp::from_nanos(self.origin));
        let window = SlidingWindow::with_clock(self.geometry.window(), clock);
        let view = window.view(self.geometry.view()).expect("divides the window");
        let mut pair = Pair::new(self, &window, &view);
        pair.compare(&[]);
        let turns: Vec<_> = self.turns.iter().chain(&AFTERWARDS).copied().collect();
        for (turn, done) in turns.iter().zip(1..) {
            pair.take(*turn);
            pair.compare(&turns[..done]);
        }
    }
}

/// The window and the oracle, to which the same is done.
struct Pair<'a> {
    case: &'a Case,
    window: &'a SlidingWindow<ManualClock>,
    view: &'a SlidingWindow<ManualClock>,
    /// Buckets that somebody holds, as one who stalls while recording does.
    held: Vec<(CurrentBucket<'a, MetricBucket>, Place)>,
    oracle: Oracle,
    now: u64,
}

impl<'a> Pair<'a> {
    fn new(
        case: &'a Case,
        window: &'a SlidingWindow<ManualClock>,
        view: &'a SlidingWindow<ManualClock>,
    ) -> Self {
        let oracle = Oracle::new(case.geometry, case.origin);
        Self { case, window, view, held: Vec::new(), oracle, now: case.origin }
    }

    fn take(&mut self, turn: Turn) {
        self.now = self.case.geometry.after(self.now, turn.step);
        match turn.operation {
            Operation::Nothing => {}
            Operation::Release => self.held.clear(),
            Operation::Record { record, through: Through::Held, .. } => self.record_in_held(record),
            Operation::Record { record, through, at } => self.record(record, through, at),
        }
        self.set_clock();
    }

    fn set_clock(&self) {
        self.window.clock().set(Timestamp::from_nanos(self.now));
    }

    fn record(&mut self, record: Record, through: Through, at: bool) {
        let place = self.oracle.place(self.now);
        record.in_oracle(self.oracle.recorded_mut(place));
        let now = Timestamp::from_nanos(self.now);
        let clone;
        let window = match through {
            Through::View => self.view,
            Through::Clone => {
                clone = self.window.clone();
                &clone
            }
            _ => self.window,
        };
        if at {
            // The clock still shows the time before: it must not be asked.
            record.in_window_at(window, now);
        } else {
            self.set_clock();
            record.in_window(window);
        }
        if through == Through::Hold {
            self.held.push((self.window.array().current_bucket(now), place));
        }
    }

    fn record_in_held(&mut self, record: Record) {
        for (bucket, place) in &self.held {
            record.in_bucket(bucket);
            record.in_oracle(self.oracle.recorded_mut(*place));
        }
    }

    fn compare(&self, done: &[Turn]) {
        let Self { case, window, view, oracle, now, .. } = self;
        Comparison { case, done, oracle, now: *now }.of(window, view);
    }
}
