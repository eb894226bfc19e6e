//! Histograms from their buckets.

use std::time::Duration;

use fastrand::Rng;
use leaparray::histogram::{CompactHistogram, HistogramBuckets, HistogramBucketsError as Error};
use leaparray::{HistogramConfig, LatencyHistogram};

const LONGEST: u64 = 1 << 62;

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

fn histogram(scale: u8, response_times: &[u64]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(scale).unwrap());
    for &it in response_times {
        histogram.record(nanos(it));
    }
    histogram
}

fn buckets(histogram: &LatencyHistogram) -> Vec<(i32, u64)> {
    histogram.buckets().map(|it| (it.index, it.count)).collect()
}

fn read_back(histogram: &LatencyHistogram) -> Result<LatencyHistogram, Error> {
    let [min, max] = [histogram.min(), histogram.max()].map(Option::unwrap_or_default);
    LatencyHistogram::from_buckets(histogram.scale(), histogram.sum(), min, max, buckets(histogram))
}

#[test]
fn each_histogram_is_read_back_exactly() {
    let mut random = Rng::with_seed(5);
    for scale in 0..=8 {
        let mut of_scale =
            vec![vec![], vec![0], vec![LONGEST], vec![0, 1, 1_000_000_000, 1_000_000_001, LONGEST]];
        // Each bin in which a narrow one without a whole nanosecond can be next to it.
        of_scale.push((0..3_000).collect());
        of_scale.extend((0..50).map(|_| {
            let longest = 1 << random.u32(1..=62);
            (0..random.usize(1..40)).map(|_| random.u64(..longest)).collect()
        }));
        for response_times in of_scale {
            let histogram = histogram(scale, &response_times);
            let coarser = [-1, -4, -10].map(|scale| histogram.downscaled(scale).unwrap());
            for histogram in coarser.iter().chain([&histogram]) {
                assert_eq!(read_back(histogram).as_ref(), Ok(histogram));
            }
        }
    }
}

#[test]
fn histogram_that_was_read_back_goes_on() {
    let mut sent = histogram(4, &[3_000, 70_000, 70_001]);
    let mut received = read_back(&sent).unwrap();
    for histogram in [&mut sent, &mut received] {
        histogram.record(nanos(5));
        histogram.record(nanos(9_000_000));
    }
    assert_eq!(received, sent);
    received.merge(&sent);
    assert_eq!((received.count(), received.sum()), (2 * sent.count(), 2 * sent.sum()));
}

/// Response times from 0 to 146 years, most of them in few octaves.
fn response_times(random: &mut Rng) -> Vec<u64> {
    let longest = 1 << random.u32(1..=62);
    (0..random.usize(0..40)).map(|_| random.u64(..=longest)).collect()
}

#[test]
fn buckets_are_added_as_their_histogram_is() {
    let mut random = Rng::with_seed(7);
    for round in 0..2_000 {
        let scales = [(); 4].map(|()| random.i8(-10..=8));
        let mut histograms = scales.map(|scale| {
            let histogram = histogram(scale.max(0).unsigned_abs(), &response_times(&mut random));
            histogram.downscaled(scale).unwrap()
        });
        if round % 4 == 0 {
            // Counts beyond those for which a compact histogram has room, and beyond all.
            let count = [1 << 16, u64::MAX][round / 4 % 2];
            histograms[random.usize(..4)].record_many(nanos(random.u64(..1 << 20)), count);
        }
        let all = histograms.each_ref().map(buckets);
        let parts = histograms.iter().zip(&all).map(|(histogram, buckets)| {
            let [min, max] = [histogram.min(), histogram.max()].map(Option::unwrap_or_default);
            HistogramBuckets::new(histogram.scale(), histogram.sum(), min, max, buckets).unwrap()
        });
        let parts: Vec<_> = parts.collect();
        let mut merged = histograms[0].clone();
        let (mut of_buckets, mut compact) = (parts[0].to_histogram(), (&parts[0]).into());
        assert_eq!((&of_buckets, &CompactHistogram::to_histogram(&compact)), (&merged, &merged));
        for (histogram, part) in histograms.iter().zip(&parts).skip(1) {
            merged.merge(histogram);
            of_buckets.merge_buckets(part);
            compact.merge_buckets(part);
        }
        assert_eq!((&of_buckets, &compact.to_histogram()), (&merged, &merged), "round {round}");
        for rt in response_times(&mut random).into_iter().map(nanos) {
            let config = HistogramConfig::with_scale(random.u8(..=8)).unwrap();
            let mut one = LatencyHistogram::new(config);
            one.record(rt);
            merged.merge(&one);
            compact.record(config, rt);
        }
        assert_eq!(compact.to_histogram(), merged, "round {round}");
        let mut twice = merged.clone();
        twice.merge(&merged);
        merged.merge_compact(&compact);
        assert_eq!(merged, twice);
    }
}

#[test]
fn empty_histogram_ignores_the_extremes() {
    for scale in [-10, 4] {
        for extreme in [Duration::ZERO, nanos(7), Duration::MAX] {
            let no_buckets: [(i32, u64); 0] = [];
            let read = LatencyHistogram::from_buckets(
                scale,
                Duration::ZERO,
                extreme,
                Duration::ZERO,
                no_buckets,
            );
            let read = read.unwrap();
            assert_eq!((read.scale(), read.count(), read.min()), (scale, 0, None));
        }
    }
}

#[test]
fn saturated_counts_are_read_back() {
    let mut full = histogram(4, &[]);
    (0..3).for_each(|_| full.record_many(nanos(100), u64::MAX));
    full.record(nanos(1_000_000));
    let read = read_back(&full).unwrap();
    assert_eq!((read.count(), read.sum()), (u64::MAX, full.sum()));
    assert_eq!(read, full);
}

#[test]
fn sum_may_be_too_small_and_not_too_large() {
    let read = |sum| LatencyHistogram::from_buckets(0, sum, nanos(4), nanos(5), [(-28, 2)]);
    assert!(read(Duration::ZERO).is_ok(), "a response time that is not in the sum yet");
    assert!(read(nanos(10)).is_ok());
    let error = read(nanos(11)).unwrap_err();
    assert_eq!(error, Error::Sum { sum_nanos: 11, count: 2, max: nanos(5) });
    assert_eq!(error.to_string(), "`sum`, 11 ns, is more than 2 times `max`, 10 ns");
}

#[test]
fn values_of_no_histogram_are_refused() {
    // At scale 0, bin −1 is from 0.5 to 1 s, and bin 2 from 4 to 8 s.
    let (min, max) = (Duration::from_millis(600), Duration::from_nanos(4_000_000_001));
    let refused = |buckets: &[(i32, u64)], min, max| {
        let read = LatencyHistogram::from_buckets(0, min, min, max, buckets.iter().copied());
        let error = read.unwrap_err();
        assert_eq!(HistogramBuckets::new(0, min, min, max, buckets).err(), Some(error));
        error
    };
    for (buckets, expected) in [
        (&[(-31, 1), (2, 1)][..], Error::Index { index: -31, first: -30, last: 32 }),
        (&[(-1, 1), (33, 1)], Error::Index { index: 33, first: -30, last: 32 }),
        (&[(i32::MIN, 1)], Error::Index { index: i32::MIN, first: -30, last: 32 }),
        (&[(-1, 1), (i32::MAX, 1)], Error::Index { index: i32::MAX, first: -30, last: 32 }),
        (&[(-1, 1), (0, 0), (2, 1)], Error::EmptyBucket { index: 0 }),
        (&[(-1, 1), (2, 1), (2, 1)], Error::Order { index: 2, before: 2 }),
        (&[(-1, 1), (2, 1), (0, 1)], Error::Order { index: 0, before: 2 }),
        (&[(0, 1), (2, 1)], Error::Min { min, index: 0 }),
        (&[(-2, 1), (2, 1)], Error::Min { min, index: -2 }),
        (&[(-1, 1), (1, 1)], Error::Max { max, index: 1 }),
        (&[(-1, 1), (2, 1), (32, 1)], Error::Max { max, index: 32 }),
        (&[], Error::SumWithoutBuckets { sum_nanos: 600_000_000 }),
    ] {
        assert_eq!(refused(buckets, min, max), expected, "{buckets:?}");
    }
    let long = Duration::from_nanos(LONGEST + 1);
    assert_eq!(refused(&[(32, 1)], long, long), Error::Min { min: long, index: 32 });
    for max in [long, Duration::MAX] {
        let error = refused(&[(-1, 1), (32, 1)], min, max);
        assert_eq!(error, Error::Max { max, index: 32 });
    }
    let message = Error::Max { max: Duration::MAX, index: 32 }.to_string();
    assert_eq!(message, "`max`, 18446744073709551615999999999 ns, is not in bucket 32");
    let message = Error::SumWithoutBuckets { sum_nanos: 5 }.to_string();
    assert_eq!(message, "without a bucket, `sum` is 0, not 5 ns");
    let [low, high] = [600, 900].map(Duration::from_millis);
    let error = refused(&[(-1, 2)], high, low);
    assert_eq!(error, Error::MinAboveMax { min: high, max: low });
    for scale in [i8::MIN, -11, 9, i8::MAX] {
        let read = LatencyHistogram::from_buckets(scale, min, min, min, [(-1, 1)]);
        assert_eq!(read, Err(Error::Scale { scale }));
    }
}

/// The bins of 1, 2 and 3 ns at scale 8 are not neighbours.
#[test]
fn bin_without_a_whole_nanosecond_is_refused() {
    let valid = histogram(8, &[1, 3]);
    let [(first, _), (last, _)] = buckets(&valid)[..] else { panic!("two bins") };
    let of_two = buckets(&histogram(8, &[2]))[0].0;
    for index in first + 1..last {
        let buckets = [(first, 1), (index, 1), (last, 1)];
        let read = LatencyHistogram::from_buckets(8, nanos(4), nanos(1), nanos(3), buckets);
        let expected = if index == of_two { Ok(3) } else { Err(Error::NoNanosecond { index }) };
        assert_eq!(read.map(|it| it.count()), expected);
    }
}

/// Each bin that contains a whole nanosecond is accepted, and no other.
#[test]
fn bins_of_each_scale_are_those_of_some_response_time() {
    for scale in 0..=8 {
        let used = buckets(&histogram(scale, &(1..=3_000).collect::<Vec<_>>()));
        let longest = histogram(scale, &[LONGEST]);
        let mut used = used.iter().map(|it| it.0).peekable();
        let (first, last) = (*used.peek().unwrap(), used.clone().last().unwrap());
        for index in first..last {
            let is_used = used.next_if_eq(&index).is_some();
            let all = [(index, 1), (buckets(&longest)[0].0, 1)];
            // A shortest response time that is in no bin: each check of the bins comes before it.
            let read = LatencyHistogram::from_buckets(
                scale.cast_signed(),
                Duration::ZERO,
                Duration::MAX,
                nanos(LONGEST),
                all,
            );
            let expected = if is_used {
                Error::Min { min: Duration::MAX, index }
            } else {
                Error::NoNanosecond { index }
            };
            assert_eq!(read, Err(expected), "scale {scale}");
        }
    }
}
