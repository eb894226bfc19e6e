//! Histograms of windows: counts of any size, times at the ends, and windows without one.

use std::time::Duration;

use leaparray::{LatencyHistogram, ManualClock, SlidingWindow, Timestamp};

use crate::latency_window::oracle::Oracle;
use crate::latency_window::{geometry, scale, window};

const RT: Duration = Duration::from_millis(20);

fn at(second: u64) -> Timestamp {
    Timestamp::from_secs(second)
}

#[test]
fn window_without_a_histogram_has_none() {
    let window = SlidingWindow::with_clock(geometry(2), ManualClock::new(at(1)));
    window.record_success(RT);
    assert_eq!(window.histogram_config(), None);
    assert_eq!((window.now().histogram(), window.lifetime_histogram()), (None, None));
    assert_eq!((window.now().quantile(0.5), window.now().quantiles([0.5, 1.0])), (None, [None; 2]));
    let mut histogram = LatencyHistogram::default();
    histogram.record(RT);
    let before = histogram.clone();
    assert!(!window.now().histogram_into(&mut histogram));
    assert_eq!(histogram, before);
}

#[test]
fn empty_window_has_an_empty_histogram() {
    let window = window(2, scale(3));
    assert_eq!(window.now().histogram(), Some(LatencyHistogram::new(scale(3))));
    assert_eq!(window.lifetime_histogram(), Some(LatencyHistogram::new(scale(3))));
    assert_eq!(window.now().quantile(0.5), None);
}

/// The bins of many sealed buckets are added up, each of which has a count in the widest part of a
/// word.
#[test]
fn counts_of_many_buckets_are_added_up() {
    for times in [15, 16, 255, 256] {
        let (window, mut oracle) = (window(600, scale(4)), Oracle::new(600, scale(4)));
        for second in 0..600 {
            (0..times).for_each(|_| window.record_rt_at(at(second), RT));
            oracle.record(at(second), RT, times);
        }
        assert_eq!(window.at(at(599)).histogram(), Some(oracle.at(at(599), 600)), "{times} each");
        assert_eq!(window.lifetime_histogram(), Some(oracle.lifetime()), "{times} each");
    }
}

/// A bucket with response times of all magnitudes is sealed, and sealed again with others. The
/// lists of bins that it leaves are filled again for later buckets.
#[test]
fn bucket_with_many_bins_is_sealed_twice() {
    for scale_number in [0, 1, 4, 8] {
        let config = scale(scale_number);
        let (window, mut oracle) = (window(2, config), Oracle::new(2, config));
        let mut record = |second: u64, shifts: std::ops::Range<u32>| {
            for shift in shifts {
                let rt = Duration::from_nanos(3 << shift);
                window.record_rt_at(at(second), rt);
                oracle.record(at(second), rt, 1);
            }
        };
        for second in 0..8 {
            // The further rounds begin in the middle of a list, at its end, or with a list that is
            // longer than the next.
            record(second, 0..50);
            record(second + 1, 20..21);
            record(second, 10 * u32::try_from(second % 5).unwrap()..50);
        }
        assert_eq!(window.at(at(8)).histogram(), Some(oracle.at(at(8), 2)), "{scale_number}");
        assert_eq!(window.lifetime_histogram(), Some(oracle.lifetime()), "{scale_number}");
    }
}

#[test]
fn response_times_at_the_ends_of_time_are_counted() {
    let last = Timestamp::from_nanos(u64::MAX);
    for now in [Timestamp::MIN, last] {
        let window = window(2, scale(4));
        window.record_rt_at(now, Duration::ZERO);
        window.record_rt_at(now, RT);
        let histogram = window.at(now).histogram().unwrap();
        assert_eq!((histogram.count(), histogram.sum()), (2, RT));
        assert_eq!((histogram.min(), histogram.max()), (Some(Duration::ZERO), Some(RT)));
        assert_eq!(window.lifetime_histogram(), Some(histogram));
    }
}

#[test]
fn response_times_out_of_range_count_as_the_longest() {
    let window = window(1, scale(4));
    window.record_success_at(at(1), Duration::MAX);
    window.record_exception_at(at(1), Duration::from_nanos(u64::MAX));
    let histogram = window.at(at(1)).histogram().unwrap();
    assert_eq!((histogram.count(), histogram.max()), (2, Some(Duration::from_nanos(1 << 62))));
    assert_eq!(histogram.quantile(0.5), Some(Duration::from_nanos(1 << 62)));
}

#[test]
fn late_response_times_are_in_the_lifetime_alone() {
    let window = window(1, scale(4));
    window.record_rt_at(at(5), RT);
    window.record_rt_at(at(4), 2 * RT);
    window.record_rt_at(at(6), 3 * RT);
    let maximum = |histogram: Option<LatencyHistogram>| histogram.unwrap().max();
    assert_eq!(maximum(window.at(at(6)).histogram()), Some(3 * RT));
    assert_eq!(window.at(at(4)).histogram().unwrap().count(), 0);
    assert_eq!(window.lifetime_histogram().unwrap().count(), 3);
}

#[test]
fn response_time_that_is_added_as_an_event_is_in_the_histogram() {
    let window = window(1, scale(4));
    window.add_at(at(1), leaparray::MetricEvent::Rt, 1_000);
    let histogram = window.at(at(1)).histogram().unwrap();
    assert_eq!((histogram.count(), histogram.sum()), (1, Duration::from_micros(1)));
}

/// A thread that reads a window again and again keeps the sums of its sealed buckets. They follow
/// records in buckets that are sealed already, and buckets that leave the window.
#[test]
fn repeated_reads_follow_late_records_and_leaving_buckets() {
    let (window, mut oracle) = (window(8, scale(4)), Oracle::new(8, scale(4)));
    for second in 0..40_u64 {
        // The second record is in a bucket that this thread has sealed.
        for (then, micros) in [(second, 10 + second), (second.saturating_sub(3), 1_000 + second)] {
            let rt = Duration::from_micros(micros);
            window.record_rt_at(at(then), rt);
            oracle.record(at(then), rt, 1);
            for read in 0..3 {
                let histogram = window.at(at(second)).histogram();
                assert_eq!(histogram, Some(oracle.at(at(second), 8)), "{read}, {second}");
            }
        }
    }
    // Nothing is recorded any more, and the buckets leave one after the other.
    for second in 40..50 {
        assert_eq!(window.at(at(second)).histogram(), Some(oracle.at(at(second), 8)), "{second}");
    }
}

/// A thread keeps the sums of few windows, and takes those of no other.
#[test]
fn windows_read_in_turn_are_not_mixed_up() {
    let windows: Vec<_> = (0..7).map(|_| window(8, scale(4))).collect();
    for second in 0..20_u64 {
        for (number, window) in windows.iter().enumerate() {
            let oldest = second - second.min(7);
            let times = number as u64 + 1;
            (0..times).for_each(|_| window.record_rt_at(at(second), RT));
            // The first three are read often enough to be kept, the others once in turn.
            for _ in 0..if number < 3 { 3 } else { 1 } {
                let count = window.at(at(second)).histogram().map(|it| it.count());
                assert_eq!(count, Some((second - oldest + 1) * times), "{number}, {second}");
            }
        }
    }
}
