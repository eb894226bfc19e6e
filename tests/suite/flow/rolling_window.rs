//! The rolling window, compared with go-zero's worked example and with a list of all added values.

use std::time::Duration;

use leaparray::rolling_window::{RollingBucket, RollingWindow, Sum};
use leaparray::{ManualClock, Timestamp, WindowConfig};
use proptest::prelude::*;

const LEN: Duration = Duration::from_millis(50);
const NOON: Timestamp = Timestamp::from_secs(43_200);

fn config(size: u32) -> WindowConfig {
    WindowConfig::new(size as usize, LEN * size).unwrap()
}

fn window(size: u32) -> (RollingWindow<u64, ManualClock>, ManualClock) {
    let clock = ManualClock::new(NOON);
    (RollingWindow::with_clock(config(size), clock.clone()), clock)
}

fn sums(window: &RollingWindow<u64, ManualClock>) -> Vec<u64> {
    window.now().buckets().map(|bucket| bucket.total.sum).collect()
}

fn complete(window: &RollingWindow<u64, ManualClock>) -> Vec<u64> {
    window.now().complete_buckets().map(|bucket| bucket.total.sum).collect()
}

#[test]
fn worked_example() {
    let (window, clock) = window(3);
    assert_eq!(sums(&window), [0, 0, 0]);
    for (values, expected) in
        [(&[1][..], [0, 0, 1]), (&[2, 3], [0, 1, 5]), (&[4, 5, 6], [1, 5, 15]), (&[7], [5, 15, 7])]
    {
        for &value in values {
            window.add(value);
        }
        assert_eq!(sums(&window), expected);
        assert_eq!(complete(&window), expected[..2]);
        clock.advance(LEN);
    }
    assert_eq!(sums(&window), [15, 7, 0]);
    clock.advance(LEN * 3);
    assert_eq!(sums(&window), [0, 0, 0], "after an idle lap");
    assert_eq!(complete(&window), [0, 0]);
}

#[test]
fn buckets_are_from_the_oldest_to_the_newest() {
    let (window, clock) = window(3);
    for value in [1, 5, 15] {
        window.add(value);
        clock.advance(LEN);
    }
    let starts_and_sums = |bucket: RollingBucket<Sum<u64>>| (bucket.start, bucket.total.sum);
    let start = |age| NOON.saturating_add(LEN * age);
    let expected = [(start(1), 5), (start(2), 15), (start(3), 0)];
    assert!(window.now().buckets().map(starts_and_sums).eq(expected));
    clock.advance(LEN * 3);
    assert!(window.now().buckets().all(|bucket| bucket.total.count == 0), "after an idle lap");
    let first = window.at(Timestamp::MIN.saturating_add(LEN)).buckets();
    assert_eq!(first.count(), 2, "time begins within the window");
}

#[test]
fn buckets_say_where_they_begin() {
    let (window, _) = window(3);
    let now = NOON.saturating_add(Duration::from_millis(49));
    let starts = |window: &RollingWindow<u64, _>| {
        window.at(now).buckets().map(|bucket| bucket.start).collect::<Vec<_>>()
    };
    assert_eq!(starts(&window), [NOON.saturating_sub(LEN * 2), NOON.saturating_sub(LEN), NOON]);
}

#[test]
fn at_both_ends_of_time_and_with_one_bucket() {
    let (window, clock) = window(3);
    for (now, buckets) in
        [(Timestamp::MIN, 1), (Timestamp::from_millis(50), 2), (Timestamp::MAX, 3)]
    {
        clock.set(now);
        window.add(7);
        assert_eq!((sums(&window).len(), complete(&window).len()), (buckets, buckets - 1));
        assert_eq!(sums(&window).last(), Some(&7));
    }
    let (single, clock) = self::window(1);
    single.add(5);
    assert_eq!((sums(&single), complete(&single)), (vec![5], vec![]));
    clock.advance(LEN);
    assert_eq!(sums(&single), [0]);
}

#[test]
fn late_values_are_in_the_ledger() {
    let (window, clock) = window(2);
    window.add(1);
    clock.advance(LEN * 2);
    window.add(20);
    window.add_at(NOON, 300);
    let ledger = window.now().ledger();
    assert_eq!(ledger.map(|total| total.sum).to_string(), {
        "321 recorded = 20 in the window + 1 expired + 300 late"
    });
    assert_eq!(ledger.recorded(), Sum { sum: 321, count: 3 });
}

/// A value of zero changes no sum, and is a value.
#[test]
fn value_of_zero_counts() {
    let window = RollingWindow::<u64>::new(config(3));
    for value in [0, 5, 0] {
        window.add_at(NOON, value);
    }
    assert_eq!(window.at(NOON).total(), Sum { sum: 5, count: 3 });
    let signed = RollingWindow::<i64>::new(config(3));
    let floats = RollingWindow::<f64>::new(config(3));
    signed.add_at(NOON, 0);
    floats.add_at(NOON, 0.0);
    assert_eq!((signed.at(NOON).total().count, floats.at(NOON).total().count), (1, 1));
}

#[test]
fn numbers_of_each_kind() {
    let signed = RollingWindow::<i64>::new(config(3));
    let floats = RollingWindow::<f64>::new(config(3));
    for value in [-7_i32, 3] {
        signed.add_at(NOON, value.into());
        floats.add_at(NOON, f64::from(value) / 2.0);
    }
    let add = |mut sum: Sum<i64>, other: Sum<i64>| {
        sum += &other;
        sum
    };
    let sum = signed.at(NOON).buckets().fold(Sum::default(), |sum, bucket| add(sum, bucket.total));
    assert_eq!(sum, Sum { sum: -4, count: 2 });
    assert!(
        (floats.at(NOON).buckets().map(|bucket| bucket.total.sum).sum::<f64>() + 2.0).abs() < 1e-9
    );
}

#[test]
fn no_value_of_many_threads_is_lost() {
    const ADDS: u32 = 20_000;
    let window = RollingWindow::<f64>::new(config(3));
    let start = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                (0..ADDS).for_each(|_| window.add_at(NOON, 0.5));
            });
        }
    });
    let in_window = window.at(NOON).ledger().in_window;
    assert_eq!(in_window, Sum { sum: f64::from(ADDS), count: u64::from(2 * ADDS) });
}

proptest! {
    /// Time goes forward by less than 400 ms, which is two laps of four buckets, or back by less
    /// than 100 ms.
    #[test]
    fn rolling_window_agrees_with_list(
        size in 1..5_u32,
        steps in prop::collection::vec((0..400_u64, 0..3_u8, 0..1_000_u64), 1..60),
    ) {
        let (window, clock) = window(size);
        let mut added: Vec<(u64, u64)> = Vec::new();
        let mut newest = vec![0; size as usize];
        let mut late = 0;
        let mut now = NOON.as_millis();
        for (step, back, value) in steps {
            now = if back == 0 { now - step / 4 } else { now + step };
            clock.set(Timestamp::from_millis(now));
            let number = now / 50;
            let slot = &mut newest[usize::try_from(number % u64::from(size)).unwrap()];
            *slot = number.max(*slot);
            window.add(value);
            if *slot == number { added.push((number, value)) } else { late += value }

            let first = number + 1 - u64::from(size);
            let expected: Vec<u64> = (first..=number)
                .map(|number| {
                    // A slot with a newer bucket no longer has this one.
                    let there = newest[usize::try_from(number % u64::from(size)).unwrap()] == number;
                    let of_it = added.iter().filter(|(added, _)| there && *added == number);
                    of_it.map(|(_, value)| value).sum()
                })
                .collect();
            prop_assert_eq!(&sums(&window), &expected);
            prop_assert_eq!(&complete(&window)[..], &expected[..expected.len() - 1]);
            let ledger = window.now().ledger();
            prop_assert_eq!(ledger.late.sum, late);
            prop_assert_eq!(ledger.in_window.sum, expected.iter().sum::<u64>());
            let all: u64 = added.iter().map(|(_, value)| value).sum();
            prop_assert_eq!(ledger.recorded().sum, all + late);
        }
    }
}

#[test]
fn array_is_printed() {
    assert!(format!("{:?}", window(3).0).starts_with("RollingWindow { array: LeapArray"));
}
