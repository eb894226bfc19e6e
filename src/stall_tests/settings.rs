//! Tests of a thread that changes the settings of a limiter, and is stopped before the change is
//! complete.

use std::sync::Arc;
use std::time::Duration;

use super::threads::{Led, watched};
use crate::flow::{Decision, LeakyBucket, Limiter, LimiterExt, Rate, TokenBucket};
use crate::sync::stall::Point;
use crate::time::{ManualClock, Timestamp};

const NOW: Timestamp = Timestamp::from_secs(60);

fn per_second(permits: u64) -> Rate {
    Rate::per_second(permits).unwrap()
}

/// Starts a thread that makes a change, and stops it at that point.
fn stopped_at<L: Send + Sync + 'static>(
    point: Point,
    limiter: &Arc<L>,
    change: impl FnOnce(&L) + Send + 'static,
) -> Led<()> {
    let mut stopped = Led::start({
        let limiter = limiter.clone();
        move |leash| {
            leash.put_on();
            change(&limiter);
        }
    });
    assert!(stopped.lead(0));
    stopped.lead_to(point);
    stopped
}

/// Other threads take tokens while a thread is stopped in the middle of a change. Before the word
/// is closed, the old settings are in force, and after that the new ones. No token is lost.
#[test]
fn stopped_change_of_a_token_bucket_blocks_no_decision() {
    for (point, capacity) in [(Point::ChangeAnnounced, 5), (Point::WordClosed, 9)] {
        let bucket = TokenBucket::with_clock(per_second(1), 5, ManualClock::new(NOW));
        let bucket = Arc::new(bucket);
        assert!(bucket.try_acquire().is_admitted());
        let stopped = stopped_at(point, &bucket, |bucket| bucket.reconfigure(per_second(1), 9));
        let other = bucket.clone();
        let takes = watched("a thread that takes tokens", move || {
            assert_eq!(
                (other.capacity(), other.quota_at(NOW).unwrap().remaining),
                (capacity, 4),
                "{point:?}"
            );
            assert_eq!(other.peek_at(NOW, 2), Some(Decision::Admitted(())));
            assert!(other.try_acquire_at(NOW, 2).is_admitted());
            assert!(other.refund_at(NOW, 1, Duration::ZERO) == (point == Point::ChangeAnnounced));
            other.quota_at(NOW).unwrap().remaining
        });
        let available = takes.result();
        stopped.finish();
        assert_eq!((bucket.capacity(), bucket.quota_at(NOW).unwrap().remaining), (9, available));
        let reset = bucket.quota_at(bucket.account().now()).unwrap().reset.unwrap();
        assert_eq!(reset.saturating_since(NOW), Duration::from_secs(9 - available));
    }
}

#[test]
fn stopped_change_of_a_leaky_bucket_blocks_no_decision() {
    for (point, wait) in [(Point::ChangeAnnounced, 1_000), (Point::WordClosed, 100)] {
        let clock = ManualClock::new(NOW);
        let bucket =
            Arc::new(LeakyBucket::with_clock(per_second(1), Duration::from_secs(9), clock));
        assert!(bucket.try_acquire().is_admitted());
        let stopped = stopped_at(point, &bucket, |bucket| {
            bucket.reconfigure(per_second(10), Duration::from_secs(9));
        });
        let other = bucket.clone();
        let asks = watched("a thread that asks", move || other.try_acquire().wait());
        let waited = asks.result();
        assert_eq!(waited, Duration::from_millis(wait), "{point:?}");
        stopped.finish();
        assert_eq!(bucket.try_acquire().wait(), waited + Duration::from_millis(100));
    }
}

/// A second change waits for its turn, and finds the first one complete.
#[test]
fn second_change_follows_a_stopped_one() {
    let bucket = TokenBucket::with_clock(per_second(1), 5, ManualClock::new(NOW));
    let bucket = Arc::new(bucket);
    let stopped =
        stopped_at(Point::WordClosed, &bucket, |bucket| bucket.reconfigure(per_second(1), 9));
    let second = {
        let bucket = bucket.clone();
        watched("a second change", move || bucket.reconfigure(per_second(2), 9))
    };
    assert!(bucket.try_acquire().is_admitted());
    stopped.finish();
    second.result();
    assert_eq!(
        (bucket.capacity(), bucket.rate(), bucket.quota_at(NOW).unwrap().remaining),
        (9, per_second(2), 4)
    );
}
