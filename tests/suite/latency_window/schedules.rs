//! Random schedules of records and reads: late, far ahead, repeated, and on several threads.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use leaparray::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::latency_window::oracle::Oracle;
use crate::latency_window::{Window, geometry, scale, window};

/// The thread of a record.
#[derive(Clone, Copy, Debug)]
enum By {
    /// The thread of the test.
    Main,
    /// A thread that lives until the end of the schedule.
    Other,
    /// A new thread, which ends.
    New,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The time changes by that number of seconds.
    Go(i64),
    /// The same response time is recorded several times.
    Record {
        by: By,
        nanos: u64,
        times: u64,
    },
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    let by = prop_oneof![Just(By::Main), Just(By::Other), Just(By::New)];
    // Few that are equal, and some of any magnitude.
    let nanos = prop_oneof![
        Just(0),
        Just(1),
        Just(1_000),
        (any::<u64>(), 24..64_u32).prop_map(|(number, shift)| number >> shift),
    ];
    // Around the number of bits in which counts are sealed.
    let times =
        prop_oneof![8 => 1..4_u64, 2 => 14..18_u64, 2 => 254..258_u64, 1 => 65_534..65_538_u64];
    prop_oneof![
        3 => prop_oneof![8 => 0..3_i64, 2 => -6..0_i64, 1 => 5..100_i64].prop_map(Step::Go),
        6 => (by, nanos, times).prop_map(|(by, nanos, times)| Step::Record { by, nanos, times }),
        2 => Just(Step::Read),
    ]
}

/// A window, the oracle, and the thread that lives.
struct Case {
    window: Window,
    oracle: Oracle,
    samples: u32,
    second: i64,
    other: Sender<Box<dyn FnOnce() + Send>>,
}

impl Case {
    fn new(samples: u32, scale_number: u8) -> Self {
        let config = scale(scale_number);
        let (other, acts) = channel::<Box<dyn FnOnce() + Send>>();
        thread::spawn(move || acts.into_iter().for_each(|act| act()));
        let (window, oracle) = (window(samples, config), Oracle::new(samples, config));
        Self { window, oracle, samples, second: 1_000, other }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_secs(self.second.unsigned_abs())
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Go(seconds) => self.second += seconds,
            Step::Record { by, nanos, times } => {
                let (window, now, rt) =
                    (self.window.clone(), self.now(), Duration::from_nanos(nanos));
                let act = move || (0..times).for_each(|_| window.record_rt_at(now, rt));
                match by {
                    By::Main => act(),
                    By::Other => {
                        let (done, is_done) = channel();
                        let act = move || {
                            act();
                            done.send(()).unwrap();
                        };
                        self.other.send(Box::new(act)).unwrap();
                        is_done.recv().unwrap();
                    }
                    By::New => thread::spawn(act).join().unwrap(),
                }
                self.oracle.record(now, rt, times);
            }
            Step::Read => self.check(),
        }
    }

    fn check(&self) {
        let now = self.now();
        let histogram = self.window.at(now).histogram().unwrap();
        assert_eq!(histogram, self.oracle.at(now, self.samples.into()), "at {}", self.second);
        let totals = self.window.at(now).ledger().in_window;
        assert_eq!(histogram.count(), totals.rt_count());
        let quantiles = [0.0, 0.5, 0.99, 1.0];
        assert_eq!(self.window.at(now).quantiles(quantiles), histogram.quantiles(quantiles));
        let lifetime = self.window.lifetime_histogram().unwrap();
        assert_eq!(lifetime, self.oracle.lifetime());
        assert_eq!(lifetime.count(), self.window.lifetime().rt_count());
        if self.samples >= 4 {
            let view = self.window.view(geometry(2)).unwrap();
            assert_eq!(view.at(now).histogram(), Some(self.oracle.at(now, 2)), "the view");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn histogram_is_that_of_the_response_times_of_its_buckets(
        samples in prop_oneof![Just(1_u32), Just(2), Just(4), Just(8)], scale in 0..=8_u8,
        steps in vec(step(), 1..60),
    ) {
        let mut case = Case::new(samples, scale);
        for step in steps {
            case.take(step);
        }
        case.check();
        // Each cell is sealed.
        case.take(Step::Go(300));
        case.take(Step::Record { by: By::Main, nanos: 5, times: 1 });
        case.check();
    }
}
