//! Rollovers while a thread has a wrap pinned. `checks/stress-tests` runs many of both at the same
//! time.

use std::time::Duration;

use leaparray::array::LeapArray;
use leaparray::metric::MetricBucket;
use leaparray::{MetricEvent, Timestamp, WindowConfig};

const PASS: MetricEvent = MetricEvent::Pass;
const BUCKET: Duration = Duration::from_millis(1);

fn config(samples: u32) -> WindowConfig {
    WindowConfig::new(samples as usize, BUCKET * samples).unwrap()
}

#[test]
fn adds_to_a_wrap_that_is_pinned_for_laps_are_expired() {
    let array = LeapArray::<MetricBucket>::new(config(2));
    let held = array.current_bucket(Timestamp::MIN);
    held.add(PASS, 1);
    for millis in 1..100 {
        array.current_bucket(Timestamp::from_millis(millis)).add(PASS, 10);
    }
    held.add(PASS, 100);
    let ledger = array.ledger(Timestamp::from_millis(99));
    assert_eq!(ledger.in_window.sum(PASS), 20);
    assert_eq!(ledger.expired.sum(PASS), 970 + 101);
    drop(held);
    array.current_bucket(Timestamp::from_millis(100)).add(PASS, 1_000);
    assert_eq!(array.ledger(Timestamp::MIN).recorded().sum(PASS), 2_091);
}
