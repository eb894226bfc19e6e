//! Worked examples with the numbers written out: index arithmetic, expiry, views.

use std::time::Duration;

use leaparray::array::LeapArray;
use leaparray::metric::MetricBucket;
use leaparray::time::ViewError;
use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};

const PASS: MetricEvent = MetricEvent::Pass;

fn t(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn config(samples: u32, bucket_millis: u64) -> WindowConfig {
    let interval = Duration::from_millis(bucket_millis) * samples;
    WindowConfig::new(samples as usize, interval).unwrap()
}

fn array(samples: u32, bucket_millis: u64) -> LeapArray<MetricBucket> {
    LeapArray::new(config(samples, bucket_millis))
}

fn window(samples: u32, bucket_millis: u64) -> SlidingWindow<ManualClock> {
    SlidingWindow::with_clock(config(samples, bucket_millis), ManualClock::new(Timestamp::MIN))
}

/// Returns the slot of the ring for the bucket of `now`.
fn slot(config: &WindowConfig, now: Timestamp) -> u64 {
    config.bucket_number(now) % config.sample_count() as u64
}

fn starts(array: &LeapArray<MetricBucket>, now: Timestamp) -> Vec<u64> {
    array.values(now).map(|wrap| wrap.start().as_millis()).collect()
}

#[test]
fn index_and_start_of_two_buckets_of_500() {
    let config = config(2, 500);
    assert_eq!(config.to_string(), "2 × 500ms");
    let base = 1_540_629_300_000;
    for (offset, start, number, index) in [
        (34_619, 34_500, 3_081_258_669, 1),
        (34_721, 34_500, 3_081_258_669, 1),
        (34_924, 34_500, 3_081_258_669, 1),
        (35_129, 35_000, 3_081_258_670, 0),
        (35_633, 35_500, 3_081_258_671, 1),
        (36_137, 36_000, 3_081_258_672, 0),
        (36_641, 36_500, 3_081_258_673, 1),
        (37_145, 37_000, 3_081_258_674, 0),
        (37_649, 37_500, 3_081_258_675, 1),
    ] {
        let now = t(base + offset);
        assert_eq!(config.bucket_start(now), t(base + start), "start of +{offset}");
        assert_eq!(config.bucket_number(now), number, "number of +{offset}");
        assert_eq!(slot(&config, now), index, "slot of +{offset}");
    }
}

#[test]
fn time_in_each_unit() {
    let time = Timestamp::from_nanos(1_540_629_334_619_723_456);
    assert_eq!(time.as_micros(), 1_540_629_334_619_723);
    assert_eq!(time.as_millis(), 1_540_629_334_619);
    assert_eq!(time.as_secs(), 1_540_629_334);
    // The shortest span that does not fit.
    let span = Duration::from_nanos(u64::MAX) + Duration::from_nanos(1);
    assert_eq!(Timestamp::MIN.saturating_add(span), Timestamp::MAX);
}

#[test]
fn five_buckets_of_200_keep_the_last_second() {
    let array = array(5, 200);
    assert_eq!(slot(array.config(), t(1_188)), 0);
    assert_eq!(slot(array.config(), t(888)), 4);
    assert_eq!(array.config().bucket_start(t(1_188)), t(1_000));
    assert_eq!(array.config().bucket_start(t(1_199)), t(1_000));
    assert_eq!(array.config().bucket_start(t(1_200)), t(1_200));
    assert_eq!([1_000, 1_199].map(|millis| array.config().bucket_end(t(millis))), [t(1_200); 2]);
    assert_eq!(array.config().bucket_end(Timestamp::MAX), Timestamp::MAX);
    for now in (200..=1_188).step_by(200) {
        array.current_bucket(t(now)).add(PASS, 1);
    }
    // In the order of time. In the order of slots, it would be 1000, 200, 400, 600, 800.
    assert_eq!(starts(&array, t(1_188)), [200, 400, 600, 800, 1_000]);
    let slots = [200, 400, 600, 800, 1_000].map(|start| slot(array.config(), t(start)));
    assert_eq!(slots, [1, 2, 3, 4, 0]);
}

#[test]
fn two_buckets_of_500_swap_in_a_fresh_wrap_a_lap_later() {
    let array = array(2, 500);
    let first = array.current_bucket(t(700));
    first.add(PASS, 1);
    let first = first.in_time().unwrap();
    assert_eq!((slot(array.config(), t(700)), first.start()), (1, t(500)));

    let same = array.current_bucket(t(750));
    assert!(std::ptr::eq(first, same.in_time().unwrap()), "a bucket has one wrap");

    let fresh = array.current_bucket(t(1_600));
    assert_eq!((slot(array.config(), t(1_600)), fresh.in_time().unwrap().start()), (1, t(1_500)));
    for now in (0..3_000).step_by(100) {
        let sum: u64 = array.values(t(now)).map(|wrap| wrap.bucket().sum(PASS)).sum();
        assert_eq!(sum, 0, "no read at {now} has the count of bucket 500");
    }
}

#[test]
fn seven_passes_are_read_for_one_interval_and_not_longer() {
    let (window, t0) = (window(2, 500), 1_540_629_300_500);
    window.add_at(t(t0), PASS, 7);
    assert_eq!(window.at(t(t0)).sum(PASS), 7);
    assert_eq!(window.at(t(t0 + 999)).sum(PASS), 7);
    assert_eq!(window.at(t(t0 + 1_000)).sum(PASS), 0);
}

#[test]
fn previous_bucket_is_the_one_before_if_it_is_there() {
    let array = array(2, 500);
    assert!(array.previous_bucket(t(700)).is_none(), "no bucket before the first");
    array.current_bucket(t(700)).add(PASS, 3);
    assert!(array.previous_bucket(t(700)).is_none(), "no bucket before the first");
    let previous = array.previous_bucket(t(1_200)).expect("one bucket later");
    assert_eq!((previous.start(), previous.bucket().sum(PASS)), (t(500), 3));
    assert!(array.previous_bucket(t(700 + 11 * 500)).is_none(), "after a gap");
    assert!(array.previous_bucket(t(0)).is_none(), "at the beginning of time");
}

#[test]
fn predicate_sees_the_starts_of_the_window_and_picks_buckets() {
    let array = array(5, 200);
    for now in (200..=1_188).step_by(200) {
        array.current_bucket(t(now)).add(PASS, now);
    }
    let mut asked = Vec::new();
    let picked: Vec<_> = array
        .values_conditional(t(1_300), |start| {
            asked.push(start.as_millis());
            start.as_millis() % 400 == 0
        })
        .map(|wrap| (wrap.start().as_millis(), wrap.bucket().sum(PASS)))
        .collect();
    assert_eq!(asked, [400, 600, 800, 1_000, 1_200], "also the untouched bucket of 1200");
    assert_eq!(picked, [(400, 400), (800, 800)]);
}

#[test]
fn ring_of_one_bucket_has_no_previous_one() {
    let array = array(1, 500);
    array.current_bucket(t(700)).add(PASS, 3);
    // The bucket of 500 is still in the only slot, but has left the window.
    assert!(array.previous_bucket(t(1_200)).is_none());
    let window = window(1, 500);
    window.add_at(t(700), PASS, 3);
    assert_eq!(window.at(t(1_200)).previous_qps(PASS), None);
}

#[test]
fn views_over_twenty_buckets_of_500() {
    let window = window(20, 500);
    for now in (0..10_000).step_by(500) {
        window.add_at(t(now), PASS, 1);
    }
    let now = t(9_999);
    assert_eq!(window.at(now).sum(PASS), 20);
    assert_eq!(window.view(config(2, 500)).unwrap().at(now).sum(PASS), 2);
    let second = window.view(config(1, 1_000)).unwrap();
    assert_eq!(second.at(now).sum(PASS), 2);
    assert_eq!(second.at(now).max_of_single_bucket(PASS), 2);
    // The view moves by one bucket of the array at a time.
    assert_eq!(second.at(t(10_499)).sum(PASS), 1);
}

#[test]
fn view_that_does_not_fit_is_refused_with_both_lengths() {
    let window = window(20, 500);
    let millis = Duration::from_millis;
    let error = window.view(config(2, 750)).unwrap_err();
    let expected = ViewError::BucketNotAMultiple { view: millis(750), array: millis(500) };
    assert_eq!(error, expected);
    assert_eq!(
        error.to_string(),
        "a view's buckets of 750ms are no multiple of the array's, 500ms"
    );
    let error = window.view(config(3, 1_000)).unwrap_err();
    let expected = ViewError::IntervalNotADivisor { view: millis(3_000), array: millis(10_000) };
    assert_eq!(error, expected);
    assert_eq!(error.to_string(), "a view's interval of 3s does not divide the array's, 10s");
    let longer = config(40, 500);
    assert!(window.view(longer).is_err(), "longer than the array");
}

/// Asks for `count` permits, one after the other, with at most `limit` passes in the window.
/// Returns how many were refused.
fn refused(window: &SlidingWindow<ManualClock>, seconds: u64, count: u64, limit: u64) -> u64 {
    let now = Timestamp::from_secs(seconds);
    for _ in 0..count {
        let event = if window.at(now).sum(PASS) < limit { PASS } else { MetricEvent::Block };
        window.add_at(now, event, 1);
    }
    let start = window.config().bucket_start(now);
    let current = window.at(now).buckets().filter(|it| it.start == start);
    current.map(|bucket| bucket.totals.sum(MetricEvent::Block)).sum()
}

#[test]
fn fixed_window_admits_a_double_burst_and_a_sliding_one_does_not() {
    let (fixed, sliding) = (window(1, 60_000), window(6, 10_000));
    for (seconds, count, refused_by_sliding) in [(5, 10, 0), (45, 90, 0), (65, 90, 80)] {
        assert_eq!(refused(&fixed, seconds, count, 100), 0, "fixed, at {seconds} s");
        assert_eq!(refused(&sliding, seconds, count, 100), refused_by_sliding, "at {seconds} s");
    }
    assert_eq!(refused(&fixed, 95, 10, 100), 0, "the fixed window has admitted all 200");
    assert_eq!(sliding.config().bucket_start(t(35_000)), t(30_000));
}

#[test]
fn rolling_sums_of_three_buckets_of_50() {
    let (window, t0) = (window(3, 50), 5_000);
    let sums = |now| -> Vec<u64> {
        window.at(t(now)).buckets().map(|bucket| bucket.totals.sum(PASS)).collect()
    };
    assert_eq!(sums(t0), [0, 0, 0]);
    for (i, (counts, expected)) in [
        (vec![1], [0, 0, 1]),
        (vec![2, 3], [0, 1, 5]),
        (vec![4, 5, 6], [1, 5, 15]),
        (vec![7], [5, 15, 7]),
    ]
    .into_iter()
    .enumerate()
    {
        let now = t0 + 50 * i as u64;
        for count in counts {
            window.add_at(t(now), PASS, count);
        }
        assert_eq!(sums(now), expected);
    }
    assert_eq!(sums(t0 + 150 + 150), [0, 0, 0], "after one idle lap");
}
