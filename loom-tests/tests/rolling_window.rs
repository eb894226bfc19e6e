//! A rolling window: each value that is counted is in the sum, and no value is lost, at a rollover
//! or beside another add.
#![cfg(loom)]

use leaparray::array::Bucket;
use leaparray::rolling_window::{Number, Rolling, RollingWindow, Sum, SumBucket};
use leaparray::{ManualClock, Timestamp, WindowConfig};
use leaparray_loom_tests::{LEN, explore, start};
use loom::sync::Arc;
use loom::thread;

type Window<T> = Arc<RollingWindow<T, ManualClock>>;

fn window<T: Rolling>(size: u32) -> Window<T> {
    let config = WindowConfig::new(size as usize, LEN * size).expect("valid by construction");
    Arc::new(RollingWindow::with_clock(config, ManualClock::new(Timestamp::MIN)))
}

fn add<T: Rolling + Send + 'static>(
    window: &Window<T>,
    number: u32,
    value: T,
) -> thread::JoinHandle<()>
where
    RollingWindow<T, ManualClock>: Send + Sync,
{
    let window = window.clone();
    thread::spawn(move || window.add_at(start(number), value))
}

fn sum<T: Number + Rolling<Bucket = SumBucket<T>>>(
    window: &RollingWindow<T, ManualClock>,
    number: u32,
) -> Sum<T> {
    window.at(start(number)).buckets().fold(Sum::default(), |mut sum, bucket| {
        sum += &bucket.total;
        sum
    })
}

/// Two threads add to one bucket while the main thread reads it. Each value that is counted is in
/// the sum.
#[test]
fn value_that_is_counted_is_in_the_sum() {
    explore(None, || {
        let bucket = Arc::new(SumBucket::<u64>::default());
        let others = [1, 10].map(|value: u64| {
            let bucket = bucket.clone();
            thread::spawn(move || value.add_to(&bucket))
        });
        let Sum { sum, count } = bucket.total();
        let at_least = [0, 1, 11][usize::try_from(count).expect("at most 2")];
        assert!(sum >= at_least, "{count} values are counted, but the sum is {sum}");
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(bucket.total(), Sum { sum: 11, count: 2 });
    });
}

/// One thread reads the window while another adds a value. Each value that is counted is in the
/// sum.
#[test]
fn reading_beside_an_add_finds_it_or_nothing() {
    explore(None, || {
        let window = window::<u64>(1);
        window.add_at(start(1), 1);
        let reader = {
            let window = window.clone();
            thread::spawn(move || sum(&window, 1))
        };
        window.add_at(start(1), 10);
        let Sum { sum, count } = reader.join().unwrap();
        assert!(
            [1, 2].contains(&count) && sum >= [1, 11][usize::from(count == 2)],
            "{sum}, {count}"
        );
    });
}

/// Two threads add at the same time, in a bucket that exists. Neither value is lost.
#[test]
fn floats_that_are_added_at_once_are_all_summed() {
    explore(None, || {
        let window = window::<f64>(1);
        window.add_at(start(1), 0.125);
        let other = add(&window, 1, 0.5);
        window.add_at(start(1), 0.25);
        other.join().unwrap();
        let found = sum(&window, 1);
        assert!(found.count == 3 && (found.sum - 0.875).abs() < 1e-9, "{found:?}");
    });
}

#[test]
fn adds_at_a_rollover_are_not_lost() {
    explore(Some(3), || {
        let window = window::<u64>(1);
        window.add_at(start(1), 1);
        let other = add(&window, 2, 10);
        window.add_at(start(2), 100);
        other.join().unwrap();
        assert_eq!(sum(&window, 2), Sum { sum: 110, count: 2 });
        let ledger = window.at(start(2)).ledger();
        assert_eq!((ledger.expired.sum, ledger.late.sum), (1, 0));
    });
}
