//! A case, for which a window and an array are compared with their oracles: a geometry, an origin
//! of time, and turns.
//!
//! A case is made from bytes: proptest makes random bytes, the fuzz target gets them from
//! libFuzzer, and a test reads the corpus of the fuzz target. [`bytes`] documents the encoding.

mod bytes;
mod compare;
mod geometry;
mod operation;
mod oracle;
mod record;
mod threads;

use leaparray::array::{CurrentBucket, LeapArray};
use leaparray::metric::MetricBucket;
use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp};

use compare::Comparison;

use geometry::{Geometry, Step};
use operation::{Operation, Through};
use oracle::{Oracle, Rules, RunIndex};
use record::Record;
use threads::{On, Threads};

/// The operations on a window and an array, with everything that is needed to repeat them.
#[derive(Debug)]
pub(crate) struct Case {
    geometry: Geometry,
    origin: u64,
    turns: Vec<Turn>,
}

/// A step of time, and then an operation.
#[derive(Clone, Copy, Debug)]
struct Turn {
    step: Step,
    operation: Operation,
}

impl Turn {
    const fn only(step: Step) -> Self {
        Self { step, operation: Operation::Nothing }
    }

    const fn below_ceiling(self) -> Self {
        match self.operation {
            Operation::Record { record, through, at } => {
                let operation = Operation::Record { record: record.below_ceiling(), through, at };
                Self { operation, ..self }
            }
            _ => self,
        }
    }
}

/// The turns after every case: without further records, the window becomes empty.
const AFTERWARDS: [Turn; 4] = [
    Turn::only(Step::ToTheEdge),
    Turn::only(Step::Nanos(1)),
    Turn::only(Step::Laps(1)),
    Turn::only(Step::Laps(100)),
];

impl Case {
    /// Runs the case, and compares all readings after each turn.
    ///
    /// # Panics
    ///
    /// If a subject differs from its oracle. The message lists all turns up to the difference.
    pub(crate) fn check(&self) {
        self.check_on(&[]);
    }

    /// Does the same, with each record in the window on the thread that its byte stands for. A turn
    /// without a byte is on the calling thread. The counts are so small then that no cell is at its
    /// ceiling: a thread may go on in the cell of a thread that has ended.
    pub(crate) fn check_on(&self, threads: &[u8]) {
        let clock = ManualClock::new(Timestamp::from_nanos(self.origin));
        let window = SlidingWindow::with_clock(self.geometry.window(), clock);
        let view = window.view(self.geometry.view()).expect("the view divides the window");
        let array = LeapArray::new(self.geometry.window());
        let mut subjects = Subjects::new(self, &window, &view, &array);
        subjects.compare(&[]);
        if threads.first().is_some_and(|first| first % 4 == 0) {
            subjects.crowd();
        }
        let turns: Vec<_> = self.turns.iter().chain(&AFTERWARDS).copied().collect();
        for (turn, done) in turns.iter().zip(1..) {
            let on = threads.get(done - 1).map_or_else(On::default, |byte| On::from_byte(*byte));
            subjects.take(if threads.is_empty() { *turn } else { turn.below_ceiling() }, on);
            subjects.compare(&turns[..done]);
        }
    }
}

/// A window with a view, an array of the same geometry, and an oracle for each of the two. All of
/// them get the same records.
struct Subjects<'a> {
    case: &'a Case,
    window: &'a SlidingWindow<ManualClock>,
    view: &'a SlidingWindow<ManualClock>,
    threads: Threads,
    window_oracle: Oracle,
    array: &'a LeapArray<MetricBucket>,
    array_oracle: Oracle,
    /// The pinned buckets of the array, as of a thread that stalls while it records.
    pinned: Vec<PinnedWrap<'a>>,
    now: u64,
}

/// A pinned bucket of the array: a wrap, or the late bucket.
struct PinnedWrap<'a> {
    bucket: CurrentBucket<'a, MetricBucket>,
    run: RunIndex,
    /// The time for which it was looked up.
    at: u64,
}

impl<'a> Subjects<'a> {
    fn new(
        case: &'a Case,
        window: &'a SlidingWindow<ManualClock>,
        view: &'a SlidingWindow<ManualClock>,
        array: &'a LeapArray<MetricBucket>,
    ) -> Self {
        let oracle = |rules| Oracle::new(case.geometry, case.origin, rules);
        let (window_oracle, array_oracle) = (oracle(Rules::Window), oracle(Rules::Array));
        let (pinned, now) = (Vec::new(), case.origin);
        let threads = Threads::default();
        Self { case, window, view, threads, window_oracle, array, array_oracle, pinned, now }
    }

    fn take(&mut self, turn: Turn, on: On) {
        self.now = self.case.geometry.after(self.now, turn.step);
        match turn.operation {
            Operation::Nothing => {}
            Operation::Release => self.pinned.clear(),
            Operation::Record { record, through: Through::Pinned, .. } => {
                self.record_in_pinned(record);
            }
            Operation::Record { record, through, at } => {
                self.record_in_array(record, through);
                self.record_in_window(record, through, at, on);
            }
        }
        self.set_clock();
    }

    fn set_clock(&self) {
        self.window.clock().set(Timestamp::from_nanos(self.now));
    }

    fn record_in_array(&mut self, record: Record, through: Through) {
        let run = self.array_oracle.run_at(self.now);
        record.in_oracle(self.array_oracle.recorded_mut(run));
        let bucket = self.array.current_bucket(Timestamp::from_nanos(self.now));
        record.in_bucket(&bucket);
        if through == Through::Hold {
            self.pinned.push(PinnedWrap { bucket, run, at: self.now });
        }
    }

    /// Records on so many workers that their cells are in three groups. Most of these threads are
    /// idle from then on.
    fn crowd(&mut self) {
        for worker in 1..64 {
            let record = Record::Count(MetricEvent::Pass, 1);
            let on = On { worker, ends: worker > 40 && worker % 5 == 0 };
            self.record_in_array(record, Through::Window);
            self.record_in_window(record, Through::Window, true, on);
        }
    }

    fn record_in_window(&mut self, record: Record, through: Through, at: bool, on: On) {
        let thread = self.threads.id_of(on.worker);
        record_in(&mut self.window_oracle, record, self.now, thread);
        let subject = if through == Through::View { self.view } else { self.window };
        let (window, now) = (subject.clone(), Timestamp::from_nanos(self.now));
        if at {
            // The clock is still at the time before, so that a reading of it would be noticed.
            self.threads.run(on, move || record.in_window_at(&window, now));
        } else {
            self.set_clock();
            self.threads.run(on, move || record.in_window(&window));
        }
    }

    fn record_in_pinned(&mut self, record: Record) {
        for PinnedWrap { bucket, run, at } in &self.pinned {
            record.in_bucket(bucket);
            record.in_oracle(self.array_oracle.recorded_mut(*run));
            record.in_window_at(self.window, Timestamp::from_nanos(*at));
            record_in(&mut self.window_oracle, record, *at, 0);
        }
    }

    fn compare(&self, done: &[Turn]) {
        let Self { case, window, view, array, now, .. } = *self;
        let comparison = |oracle, threads_end| Comparison { case, done, oracle, now, threads_end };
        comparison(&self.window_oracle, self.threads.some_end()).of_window(window, view);
        comparison(&self.array_oracle, false).of_array(array);
    }
}

fn record_in(oracle: &mut Oracle, record: Record, now: u64, thread: usize) {
    let run = oracle.run_of(thread, now);
    record.in_oracle(oracle.recorded_mut(run));
}
