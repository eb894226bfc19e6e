//! The window against a naive oracle: a list of everything that was added, summed by hand.

use std::time::Duration;

use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};
use proptest::prelude::*;

/// One add, as the oracle remembers it.
#[derive(Clone, Copy, Debug)]
struct Added {
    bucket: u64,
    event: MetricEvent,
    count: u64,
    late: bool,
}

/// Everything that was added, in order. Nothing is ever removed, everything is searched.
#[derive(Debug)]
struct Oracle {
    samples: u64,
    bucket_nanos: u64,
    added: Vec<Added>,
}

impl Oracle {
    fn bucket(&self, now: u64) -> u64 {
        now / self.bucket_nanos
    }

    fn add(&mut self, now: u64, event: MetricEvent, count: u64) {
        let bucket = self.bucket(now);
        let late = self.overtaken(bucket);
        self.added.push(Added { bucket, event, count, late });
    }

    /// Whether something was recorded a whole number of laps after `bucket`.
    fn overtaken(&self, bucket: u64) -> bool {
        self.in_time()
            .any(|it| it.bucket > bucket && it.bucket % self.samples == bucket % self.samples)
    }

    fn in_time(&self) -> impl Iterator<Item = &Added> {
        self.added.iter().filter(|it| !it.late)
    }

    /// What the buckets `now` covers, the last `length` of them, hold of `event`.
    fn in_window(&self, now: u64, length: u64, event: MetricEvent) -> Vec<Added> {
        let newest = u128::from(self.bucket(now));
        self.in_time()
            .filter(|it| u128::from(it.bucket) <= newest)
            .filter(|it| u128::from(it.bucket) + u128::from(length) > newest)
            .filter(|it| it.event == event && !self.overtaken(it.bucket))
            .copied()
            .collect()
    }

    fn max_of_single_bucket(&self, now: u64, event: MetricEvent) -> u64 {
        let found = self.in_window(now, self.samples, event);
        let of_bucket =
            |bucket| found.iter().filter(move |it| it.bucket == bucket).map(|it| it.count);
        found.iter().map(|it| of_bucket(it.bucket).sum()).max().unwrap_or(0)
    }

    fn total(&self, event: MetricEvent) -> u64 {
        sum(self.added.iter().filter(|it| it.event == event))
    }

    fn late(&self, event: MetricEvent) -> u64 {
        sum(self.added.iter().filter(|it| it.event == event && it.late))
    }
}

fn sum<'a>(added: impl IntoIterator<Item = &'a Added>) -> u64 {
    added.into_iter().map(|it| it.count).sum()
}

/// How time moves before an operation. Where it matters, in lengths of a bucket and of a lap.
#[derive(Clone, Debug)]
enum Step {
    Stand,
    Nanos(u64),
    Buckets(u64),
    Laps(u64),
    Back(u64),
    BackBuckets(u64),
    ToTheEdge,
    ToTheEnd,
    ToTheBeginning,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Stand),
        4 => (0..2_000_u64).prop_map(Step::Nanos),
        3 => (1..4_u64).prop_map(Step::Buckets),
        1 => (1..5_u64).prop_map(Step::Laps),
        1 => (0..3_000_u64).prop_map(Step::Back),
        1 => (1..9_u64).prop_map(Step::BackBuckets),
        2 => Just(Step::ToTheEdge),
        1 => Just(Step::ToTheEnd),
        1 => Just(Step::ToTheBeginning),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Geometry {
    samples: u64,
    bucket_nanos: u64,
}

impl Geometry {
    fn after(self, now: u64, step: &Step) -> u64 {
        let Self { samples, bucket_nanos } = self;
        match *step {
            Step::Stand => now,
            Step::Nanos(nanos) => now.saturating_add(nanos),
            Step::Buckets(buckets) => now.saturating_add(buckets * bucket_nanos),
            Step::Laps(laps) => now.saturating_add(laps * samples * bucket_nanos),
            Step::Back(nanos) => now.saturating_sub(nanos),
            Step::BackBuckets(buckets) => now.saturating_sub(buckets * bucket_nanos),
            Step::ToTheEnd => u64::MAX - now % 3,
            Step::ToTheBeginning => now % 3,
            Step::ToTheEdge => (now - now % bucket_nanos).saturating_add(bucket_nanos - 1),
        }
    }

    fn config(self) -> WindowConfig {
        let samples = usize::try_from(self.samples).unwrap();
        let interval = Duration::from_nanos(self.samples * self.bucket_nanos);
        WindowConfig::new(samples, interval).unwrap()
    }
}

fn event() -> impl Strategy<Value = MetricEvent> {
    prop::sample::select(MetricEvent::ALL.to_vec())
}

fn origin() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..10_000_u64,
        Just(1_540_629_334_619_000_000),
        Just(u64::MAX - 5_000),
        Just(u64::MAX),
    ]
}

/// Asks the window everything at its clock's time and holds it against the oracle.
fn compare(window: &SlidingWindow<ManualClock>, oracle: &Oracle, now: u64) {
    let account = window.account();
    for event in MetricEvent::ALL {
        let found = oracle.in_window(now, oracle.samples, event);
        let in_window = sum(&found);
        assert_eq!(window.sum(event), in_window, "sum of {event}");
        assert_eq!(
            window.max_of_single_bucket(event),
            oracle.max_of_single_bucket(now, event),
            "largest bucket of {event}"
        );
        assert_eq!(
            window.buckets().map(|it| it.totals.sum(event)).sum::<u64>(),
            in_window,
            "sum over the buckets of {event}"
        );
        assert_eq!(account.in_window.sum(event), in_window, "{event} in the window");
        assert_eq!(account.late.sum(event), oracle.late(event), "late {event}");
        assert_eq!(account.recorded().sum(event), oracle.total(event), "recorded {event}");
    }
    compare_rts(window, oracle, now);
}

fn compare_rts(window: &SlidingWindow<ManualClock>, oracle: &Oracle, now: u64) {
    let of = |added: Vec<Added>| -> Vec<u64> { added.iter().map(|it| it.count).collect() };
    let in_window = of(oracle.in_window(now, oracle.samples, MetricEvent::Rt));
    let nanos = |rt: Option<Duration>| rt.map(|rt| u64::try_from(rt.as_nanos()).unwrap());
    assert_eq!(nanos(window.min_rt()), in_window.iter().copied().min(), "min rt");
    assert_eq!(nanos(window.max_rt()), in_window.iter().copied().max(), "max rt");
    assert_eq!(nanos(window.avg_rt()), mean(&in_window), "mean rt");

    let all = oracle.added.iter().filter(|it| it.event == MetricEvent::Rt).copied().collect();
    for (totals, rts) in [(window.account().in_window, in_window), (window.lifetime(), of(all))] {
        assert_eq!(totals.rt_count(), rts.len() as u64, "count of rts");
        assert_eq!(nanos(totals.min_rt()), rts.iter().copied().min(), "min rt of the totals");
        assert_eq!(nanos(totals.max_rt()), rts.iter().copied().max(), "max rt of the totals");
        assert_eq!(nanos(totals.avg_rt()), mean(&rts), "mean rt of the totals");
    }
}

fn mean(rts: &[u64]) -> Option<u64> {
    rts.iter().sum::<u64>().checked_div(rts.len() as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_window_reads_what_the_oracle_adds_up(
        samples in 1..8_u64,
        bucket_nanos in prop_oneof![Just(2), 2..1_000_u64],
        origin in origin(),
        adds in prop::collection::vec((step(), event(), 0..1_000_u64), 1..80),
    ) {
        let geometry = Geometry { samples, bucket_nanos };
        let mut now = origin;
        let clock = ManualClock::new(Timestamp::from_nanos(now));
        let window = SlidingWindow::with_clock(geometry.config(), clock.clone());
        let mut oracle = Oracle { samples, bucket_nanos, added: Vec::new() };
        for (step, event, count) in adds {
            now = geometry.after(now, &step);
            clock.set(Timestamp::from_nanos(now));
            compare(&window, &oracle, now);
            window.add(event, count);
            oracle.add(now, event, count);
            compare(&window, &oracle, now);
        }
        for later in [Step::ToTheEdge, Step::Buckets(1), Step::Laps(1), Step::Laps(100)] {
            now = geometry.after(now, &later);
            clock.set(Timestamp::from_nanos(now));
            compare(&window, &oracle, now);
        }
    }

    #[test]
    fn a_view_reads_the_newest_buckets_of_its_array(
        view_samples in 1..4_u64,
        buckets_per_sample in 1..4_u64,
        views_per_array in 1..4_u64,
        bucket_nanos in 1..1_000_u64,
        origin in origin(),
        adds in prop::collection::vec((step(), event(), 0..1_000_u64), 1..60),
    ) {
        let length = view_samples * buckets_per_sample;
        let samples = length * views_per_array;
        let geometry = Geometry { samples, bucket_nanos };
        let view_bucket = bucket_nanos * buckets_per_sample;
        let view = Geometry { samples: view_samples, bucket_nanos: view_bucket };
        let clock = ManualClock::new(Timestamp::from_nanos(origin));
        let window = SlidingWindow::with_clock(geometry.config(), clock.clone());
        let view = window.view(view.config()).unwrap();
        let mut oracle = Oracle { samples, bucket_nanos, added: Vec::new() };
        let mut now = origin;
        for (i, (step, event, count)) in adds.into_iter().enumerate() {
            now = geometry.after(now, &step);
            clock.set(Timestamp::from_nanos(now));
            // Recording through either handle is the same.
            if i % 2 == 0 { window.add(event, count) } else { view.add(event, count) }
            oracle.add(now, event, count);
            for event in MetricEvent::ALL {
                let in_view = sum(&oracle.in_window(now, length, event));
                prop_assert_eq!(view.sum(event), in_view);
                prop_assert_eq!(view.account().in_window.sum(event), in_view);
                prop_assert_eq!(view.account().recorded().sum(event), oracle.total(event));
                let found = oracle.in_window(now, length, event);
                let newest = oracle.bucket(now);
                // The view's own buckets, by their age: counted back from the newest.
                let of_age = |age| {
                    sum(found.iter().filter(|it| (newest - it.bucket) / buckets_per_sample == age))
                };
                let ages = (0..view_samples).rev();
                let there = ages.filter(|age| age * buckets_per_sample <= newest);
                let expected: Vec<_> = there.map(of_age).collect();
                let buckets: Vec<_> = view.buckets().map(|it| it.totals.sum(event)).collect();
                prop_assert_eq!(&buckets, &expected);
                let max = expected.into_iter().max().unwrap();
                prop_assert_eq!(view.max_of_single_bucket(event), max);
            }
        }
    }
}
