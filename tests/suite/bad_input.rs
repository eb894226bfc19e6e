//! Invalid input, and input at the limits of its range: no panic, and no overflow that wraps
//! around.

use std::thread;
use std::time::Duration;

use leaparray::metric::MetricBucket;
use leaparray::time::ConfigError;
use leaparray::{Clock, ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};

const PASS: MetricEvent = MetricEvent::Pass;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn config_names_what_is_wrong_with_it() {
    let too_long = WindowConfig::MAX_INTERVAL + Duration::from_nanos(1);
    let too_many = WindowConfig::MAX_SAMPLE_COUNT + 1;
    let (max, longest) = (WindowConfig::MAX_SAMPLE_COUNT, WindowConfig::MAX_INTERVAL);
    let few = Duration::from_nanos(9);
    for (sample_count, interval, error, text) in [
        (
            0,
            SECOND,
            ConfigError::ZeroSamples { interval: SECOND },
            "a window of 1s needs at least one sample, not 0",
        ),
        (
            10,
            Duration::ZERO,
            ConfigError::ZeroInterval { sample_count: 10 },
            "a window of 10 samples needs an interval above 0 ns",
        ),
        (
            too_many,
            SECOND,
            ConfigError::TooManySamples { sample_count: too_many, max },
            "1048577 samples are more than the 1048576 a window can have",
        ),
        (
            1,
            too_long,
            ConfigError::IntervalTooLong { interval: too_long, max: longest },
            "an interval of 18446744073.709551616s is longer than the longest, \
             18446744073.709551615s",
        ),
        (
            10,
            few,
            ConfigError::BucketTooShort { sample_count: 10, interval: few },
            "10 samples in 9ns are shorter than 2 ns each",
        ),
        (
            3,
            SECOND,
            ConfigError::Indivisible { sample_count: 3, interval: SECOND },
            "1s does not divide into 3 samples of whole nanoseconds",
        ),
    ] {
        assert_eq!(WindowConfig::new(sample_count, interval), Err(error));
        assert_eq!(error.to_string(), text);
    }
    let usize_max = WindowConfig::new(usize::MAX, Duration::MAX).unwrap_err();
    assert!(matches!(usize_max, ConfigError::TooManySamples { .. }));
}

#[test]
fn largest_and_smallest_config_work() {
    let longest = WindowConfig::new(1, WindowConfig::MAX_INTERVAL).unwrap();
    let most = WindowConfig::new(WindowConfig::MAX_SAMPLE_COUNT, Duration::from_nanos(2 << 20));
    let shortest = WindowConfig::new(1, Duration::from_nanos(2)).unwrap();
    for config in [longest, most.unwrap(), shortest] {
        for made in [Timestamp::MIN, Timestamp::MAX] {
            let window = SlidingWindow::with_clock(config, ManualClock::new(made));
            for now in [Timestamp::MIN, Timestamp::from_nanos(1), Timestamp::MAX] {
                window.add_at(now, PASS, 1);
                assert_eq!(window.at(now).ledger().recorded(), window.lifetime());
                assert!(window.at(now).sum(PASS) >= 1, "{config} at {now}");
                assert!(window.at(now).qps(PASS).is_finite(), "{config} at {now}");
            }
            assert_eq!(window.lifetime().sum(PASS), 3);
        }
    }
}

/// A window of 10 × 100 ms.
fn window() -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(10, SECOND).unwrap();
    SlidingWindow::with_clock(config, ManualClock::new(Timestamp::MIN))
}

#[test]
fn both_ends_of_time_are_recorded_and_read_like_any_time() {
    let window = window();
    for now in [Timestamp::MIN, Timestamp::MAX] {
        window.clock().set(now);
        window.add(PASS, 5);
        window.record_rt_at(window.clock().now(), SECOND);
        assert_eq!(window.now().sum(PASS), 5);
        assert_eq!(window.now().totals().avg_rt(), Some(SECOND));
        assert!(window.now().previous_qps(PASS).is_some());
        assert!(window.now().buckets().count() >= 1);
        window.clock().advance(Duration::MAX);
    }
    assert_eq!(window.lifetime().sum(PASS), 10);
    // The last bucket is cut short: it does not count records that are then made at the beginning
    // of time.
    for now in [Timestamp::MAX, Timestamp::MIN, Timestamp::MAX, Timestamp::MIN] {
        window.add_at(now, MetricEvent::Block, 1);
    }
    assert_eq!(window.at(Timestamp::MAX).sum(MetricEvent::Block), 2);
    assert_eq!(window.at(Timestamp::MIN).sum(MetricEvent::Block), 2);
    // No bucket comes after the last one, and it is not in the slot of the first one, so both are
    // still there.
    let ledger = window.at(Timestamp::MAX).ledger();
    assert_eq!((window.at(Timestamp::MAX).sum(PASS), ledger.expired.sum(PASS)), (5, 5));
    assert_eq!(window.at(Timestamp::MIN).sum(PASS), 5);
}

#[test]
fn huge_counts_saturate_bucket_by_bucket() {
    let window = window();
    let full = MetricBucket::CEILING;
    for millis in (0..500).step_by(100) {
        for count in [u64::MAX, u64::MAX, u64::MAX, u64::MAX, 1, 0] {
            window.add_at(Timestamp::from_millis(millis), PASS, count);
        }
        let buckets = millis / 100 + 1;
        let sum = window.at(Timestamp::from_millis(millis)).sum(PASS);
        assert_eq!(sum, full.saturating_mul(buckets), "{buckets} full buckets");
    }
    assert_eq!(window.at(Timestamp::from_millis(499)).sum(PASS), u64::MAX);
    assert_eq!(window.at(Timestamp::from_millis(499)).max_of_single_bucket(PASS), full);
    assert_eq!(window.lifetime().sum(PASS), u64::MAX);
}

#[test]
fn response_times_of_any_length_keep_a_mean() {
    let window = window();
    let century = Duration::from_secs(100 * 365 * 86_400);
    for millis in (0..1_000).step_by(100) {
        window.record_rt_at(Timestamp::from_millis(millis), century);
    }
    let now = Timestamp::from_millis(999);
    assert_eq!(
        window.at(now).totals().avg_rt(),
        Some(century),
        "the sum of buckets does not saturate"
    );
    assert_eq!(window.at(now).sum(MetricEvent::Rt), u64::MAX, "the sum of an event saturates");
    assert_eq!(window.lifetime().sum(MetricEvent::Rt), u64::MAX, "also in totals");
    window.record_rt_at(now, Duration::MAX);
    let cut = Duration::from_nanos(MetricBucket::CEILING);
    assert_eq!(
        window.at(now).totals().max_rt(),
        Some(cut),
        "a response time is clamped at 146 years"
    );
    assert_eq!(window.at(now).totals().min_rt(), Some(century));
    // The sum of one bucket saturates at 146 years. From there on, the mean is a lower bound.
    let bucket = window.at(now).buckets().last().unwrap().totals;
    assert_eq!((bucket.rt_count(), bucket.avg_rt()), (2, Some(cut / 2)));
}

#[test]
fn add_to_a_bucket_whose_slot_has_a_later_one_is_late() {
    let window = window();
    window.add_at(Timestamp::from_secs(100), PASS, 1);
    // The first time is in the slot of the newest bucket, the second one in a slot without a later
    // bucket.
    for (millis, count, late) in [(90_000, 10, 10), (90_100, 100, 0)] {
        window.clock().set(Timestamp::from_millis(millis));
        assert_eq!(window.now().sum(PASS), 0, "no later bucket is read at {millis} ms");
        let before = window.now().ledger().late.sum(PASS);
        window.add(PASS, count);
        assert_eq!(window.now().sum(PASS), count - late, "at {millis} ms");
        assert_eq!(window.now().ledger().late.sum(PASS) - before, late);
    }
    // The oldest bucket of the window at 100 s, and the bucket before it, which is in the slot of
    // 100 s.
    for (millis, count) in [(99_100, 1_000), (99_000, 10_000)] {
        window.add_at(Timestamp::from_millis(millis), PASS, count);
    }
    window.clock().set(Timestamp::from_secs(100));
    assert_eq!(window.now().sum(PASS), 1_001);
    assert_eq!(window.now().ledger().late.sum(PASS), 10_010);
    assert_eq!(window.lifetime().sum(PASS), 11_111);
}

#[test]
fn add_far_ahead_takes_one_slot_and_no_other() {
    let window = window();
    window.add_at(Timestamp::from_secs(10_000), PASS, 7);
    // Two laps, bucket by bucket. One bucket of each lap is in the slot of the bucket far ahead.
    for bucket in 1_000..1_020 {
        window.add_at(Timestamp::from_millis(bucket * 100), PASS, 1);
    }
    let now = Timestamp::from_millis(101_900);
    assert_eq!(window.at(now).sum(PASS), 9);
    let ledger = window.at(now).ledger().map(|totals| totals.sum(PASS));
    assert_eq!((ledger.in_window, ledger.expired, ledger.late), (9, 9 + 7, 2));
    assert_eq!(window.at(now).buckets().filter(|it| it.totals.sum(PASS) == 1).count(), 9);
    assert_eq!(window.at(Timestamp::from_secs(10_000)).sum(PASS), 7);
}

#[test]
fn add_within_the_interval_before_the_newest_bucket_is_read_at_its_own_time() {
    let window = window();
    window.add_at(Timestamp::from_secs(100), PASS, 1);
    let earlier = Timestamp::from_millis(99_500);
    window.add_at(earlier, PASS, 10);
    assert_eq!(window.at(earlier).sum(PASS), 10);
    assert_eq!(window.at(Timestamp::from_secs(100)).sum(PASS), 11);
    // A record at 100.5 s is in the slot of the bucket of 99.5 s, which is then gone.
    window.add_at(Timestamp::from_millis(100_500), PASS, 100);
    assert_eq!(window.at(earlier).sum(PASS), 0, "gone, also at a time whose window covers it");
    assert_eq!(window.at(Timestamp::from_millis(100_500)).sum(PASS), 101);
}

#[test]
fn sum_of_one_bucket_passes_the_ceiling_once_its_thread_has_left_it() {
    let window = window();
    let full = MetricBucket::CEILING;
    let (first, second) = (Timestamp::from_millis(0), Timestamp::from_millis(100));
    for visits in 1..=5 {
        for count in [u64::MAX, 1] {
            window.add_at(first, PASS, count);
        }
        let sum = full.saturating_mul(visits);
        assert_eq!(window.at(first).sum(PASS), sum, "after {visits} visits");
        window.add_at(second, MetricEvent::Block, 1);
        assert_eq!(window.at(first).sum(PASS), sum, "sealed");
    }
    assert_eq!(window.at(second).max_of_single_bucket(PASS), u64::MAX);
    assert_eq!(window.at(second).sum(MetricEvent::Block), 5);
}

#[test]
fn huge_count_in_the_newest_bucket_stops_at_the_ceiling() {
    let window = window();
    let [first, second] = [0, 100].map(Timestamp::from_millis);
    window.add_at(first, PASS, 5);
    for count in [u64::MAX, 1] {
        window.add_at(second, PASS, count);
        assert_eq!(window.at(second).sum(PASS), MetricBucket::CEILING + 5);
    }
}

#[test]
fn huge_bucket_before_the_newest_one_saturates_the_sum() {
    let config = WindowConfig::new(2, Duration::from_millis(200)).unwrap();
    let window = SlidingWindow::with_clock(config, ManualClock::new(Timestamp::MIN));
    let [first, second] = [1_000, 1_100].map(Timestamp::from_millis);
    window.add_at(first, PASS, 1);
    window.add_at(second, PASS, 5);
    for _ in 0..4 {
        window.add_at(first, PASS, u64::MAX);
        window.add_at(second, PASS, 1);
    }
    assert_eq!(window.at(second).sum(PASS), u64::MAX);
}

#[test]
fn huge_counts_of_several_threads_saturate_the_sum() {
    /// Adds on `threads` nested threads. No thread ends before the innermost one has read the sum.
    fn add_on_threads(window: &SlidingWindow<ManualClock>, threads: u64) {
        let [before, now] = [0, 100].map(Timestamp::from_millis);
        window.add_at(before, PASS, 0);
        window.add_at(now, PASS, u64::MAX);
        if threads > 1 {
            thread::scope(|scope| {
                scope.spawn(|| add_on_threads(window, threads - 1)).join().unwrap();
            });
        } else {
            assert_eq!(window.at(now).sum(PASS), u64::MAX);
        }
    }
    add_on_threads(&window(), 4);
    add_on_threads(&window(), 5);
}

#[test]
fn read_back_in_time_finds_the_cell_of_an_idle_thread() {
    let window = window();
    let [earlier, far_ahead] = [0, 1_500].map(Timestamp::from_millis);
    window.add_at(earlier, PASS, 1);
    thread::scope(|scope| {
        // In another slot, and so far ahead that the sweep finds the first cell idle.
        scope.spawn(|| window.add_at(far_ahead, PASS, 10)).join().unwrap();
    });
    assert_eq!(window.at(far_ahead).sum(PASS), 10);
    assert_eq!(window.at(earlier).sum(PASS), 1);
}

#[test]
fn late_counts_beside_the_cell_of_a_later_bucket_are_counted_once() {
    let window = window();
    let [gone, later] = [90, 100].map(Timestamp::from_secs);
    window.add_at(later, PASS, 1);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            window.add_at(gone, PASS, 10);
            // Seals the late counts, while the slot has no row.
            window.add_at(later, PASS, 100);
        });
        other.join().unwrap();
    });
    assert_eq!(window.at(later).sum(PASS), 101);
    assert_eq!(window.at(later).ledger().late.sum(PASS), 10);
    assert_eq!(window.lifetime().sum(PASS), 111);
}
