//! The limiters: none admits more than its limit, and none refuses a request for which a permit was free all the time.
#![cfg(loom)]

use std::time::Duration;

use leaparray::flow::{
    ConcurrencyLimiter, Decision, LeakyBucket, Limiter, Rate, SlidingWindowLimiter, TokenBucket,
    WarmUp, WarmUpConfig,
};
use leaparray::{ManualClock, Timestamp, WindowConfig};
use leaparray_loom_tests::{LEN, Node, explore, node, node_config, start};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

type Sliding = SlidingWindowLimiter<ManualClock>;

fn window(samples: u32) -> WindowConfig {
    WindowConfig::new(samples as usize, LEN * samples).unwrap()
}

fn sliding(samples: u32, limit: u64) -> Arc<Sliding> {
    let clock = ManualClock::new(Timestamp::MIN);
    let limiter = SlidingWindowLimiter::with_clock(window(samples), limit, clock).unwrap();
    // The models give the times, and the clock stands still.
    Arc::new(limiter.with_max_lead(Duration::MAX))
}

/// Asks for permits in bucket `number`. Returns the number of admitted permits: all or none.
fn ask<L: Limiter>(limiter: &L, number: u32, permits: u64) -> u64 {
    if limiter.try_acquire_at(start(number), permits).is_admitted() { permits } else { 0 }
}

/// Calls [`ask`] on a thread of its own.
fn asks<L: Limiter + Send + Sync + 'static>(
    limiter: &Arc<L>,
    number: u32,
    permits: u64,
) -> thread::JoinHandle<u64> {
    let limiter = limiter.clone();
    thread::spawn(move || ask(&*limiter, number, permits))
}

#[test]
fn last_permit_is_taken_once() {
    explore(None, || {
        let limiter = sliding(2, 2);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        let others = [asks(&limiter, 1, 1), asks(&limiter, 1, 1)];
        let admitted: u64 = others.map(|other| other.join().unwrap()).iter().sum();
        assert_eq!(admitted, 1);
    });
}

/// Two threads ask for the last permit, in buckets 2 and 3. The request of bucket 2 is in time, or it is late and
/// decided in bucket 3. One of the two is admitted.
#[test]
fn last_permit_is_taken_once_across_a_rollover() {
    explore(None, || {
        let limiter = sliding(3, 2);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        let other = asks(&limiter, 2, 1);
        let admitted = ask(&*limiter, 3, 1) + other.join().unwrap();
        assert_eq!(admitted, 1);
        assert_eq!(limiter.available_at(start(4)), 1, "only the permit of bucket 1 has left");
    });
}

/// Three threads ask in three buckets for more than the two permits that are left. One or two are admitted, and each is
/// counted in the window.
#[test]
fn limit_holds_for_three_requests_across_three_buckets() {
    explore(Some(2), || {
        let limiter = sliding(5, 3);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        let others = [asks(&limiter, 2, 2), asks(&limiter, 4, 2)];
        let admitted = ask(&*limiter, 5, 1)
            + others.map(|other| other.join().unwrap())[..].iter().sum::<u64>();
        assert!((1..=2).contains(&admitted), "{admitted}");
        assert_eq!(limiter.available_at(start(5)), 3 - 1 - admitted);
        // The permit of bucket 1 leaves.
        assert_eq!(limiter.available_at(start(6)), 3 - admitted);
    });
}

/// Three threads ask in bucket 3, in which the two permits of bucket 1 have left the window. Each of the two is free
/// again once, whichever thread opens the bucket.
#[test]
fn permit_that_has_left_is_free_again_once() {
    explore(Some(3), || {
        let limiter = sliding(2, 3);
        assert_eq!(ask(&*limiter, 1, 2), 2);
        assert_eq!(ask(&*limiter, 2, 1), 1);
        let others = [asks(&limiter, 3, 1), asks(&limiter, 3, 1)];
        let admitted =
            ask(&*limiter, 3, 1) + others.map(|other| other.join().unwrap()).iter().sum::<u64>();
        assert_eq!(admitted, 2);
    });
}

/// No permit was taken in bucket 3. A thread that stalls before it notes that adds up slots that other threads have
/// recycled. It does not find bucket 1 there, and takes its permit for a permit of bucket 3. If it noted that, no
/// permit would be free in bucket 5.
#[test]
fn bucket_without_permits_is_noted_once() {
    explore(Some(3), || {
        let limiter = sliding(3, 1);
        // More permits than the limit: the request only opens the bucket.
        assert_eq!(ask(&*limiter, 1, 1) + ask(&*limiter, 3, 2), 1);
        let other = asks(&limiter, 4, 2);
        assert_eq!(ask(&*limiter, 4, 2) + ask(&*limiter, 5, 1), 1);
        assert_eq!(ask(&*limiter, 6, 1), 0);
        other.join().unwrap();
    });
}

/// Two threads ask in buckets 2 and 3. A permit is free for each of them from first to last, so both are admitted.
#[test]
fn no_request_is_refused_while_a_permit_is_left() {
    explore(None, || {
        let limiter = sliding(2, 3);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        let other = asks(&limiter, 2, 1);
        assert_eq!(ask(&*limiter, 3, 1), 1);
        assert_eq!(other.join().unwrap(), 1);
    });
}

#[test]
fn reading_beside_a_rollover_is_of_one_moment() {
    explore(None, || {
        let limiter = sliding(2, 4);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        assert_eq!(ask(&*limiter, 2, 1), 1);
        let reader = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.available_at(start(3)))
        };
        // One permit of the window that ends with bucket 3 is taken before: in bucket 2.
        assert_eq!(ask(&*limiter, 3, 2), 2);
        let available = reader.join().unwrap();
        assert!([3, 1].contains(&available), "{available}");
    });
}

/// One thread reads the window that ends with bucket 3 while another opens buckets 4 and 5, and so recycles the slot of
/// bucket 1. The reading is of one moment.
#[test]
fn reading_beside_a_lap_is_of_one_moment() {
    explore(None, || {
        let limiter = sliding(3, 4);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        assert_eq!(ask(&*limiter, 2, 1), 1);
        let reader = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.available_at(start(3)))
        };
        assert_eq!(ask(&*limiter, 4, 1), 1);
        assert_eq!(ask(&*limiter, 5, 1), 1);
        let available = reader.join().unwrap();
        assert!((2..=3).contains(&available), "{available}");
    });
}

/// One thread reads the permits of each bucket while another opens buckets 3 and 4. The reading is of one moment: of
/// before, or of after any one of the steps.
#[test]
fn reading_of_each_bucket_is_of_one_moment() {
    explore(Some(3), || {
        let limiter = sliding(2, 9);
        assert_eq!(ask(&*limiter, 1, 1) + ask(&*limiter, 2, 2), 3);
        let reader = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.permits_by_bucket_at(start(2)))
        };
        assert_eq!(ask(&*limiter, 3, 3) + ask(&*limiter, 4, 4), 7);
        let found: Vec<_> = reader.join().unwrap().iter().map(|b| (b.start, b.permits)).collect();
        let window = |last, permits: [u64; 2]| {
            vec![(start(last - 1), permits[0]), (start(last), permits[1])]
        };
        let moments = [
            window(2, [1, 2]),
            window(3, [2, 0]),
            window(3, [2, 3]),
            window(4, [3, 0]),
            window(4, [3, 4]),
        ];
        assert!(moments.contains(&found), "{found:?}");
    });
}

/// Another thread opens bucket 4, in which a permit is free again, and stores the oldest bucket with permits of that
/// window. A refusal in bucket 3 names the start of bucket 4 nevertheless.
#[test]
fn retry_time_is_of_the_window_that_was_full() {
    explore(None, || {
        let limiter = sliding(3, 2);
        assert_eq!(ask(&*limiter, 1, 1) + ask(&*limiter, 3, 1), 2);
        // More permits than the limit: the request only opens the bucket.
        let other = asks(&limiter, 4, 3);
        if let Some(refusal) = limiter.try_acquire_at(start(3), 1).refusal() {
            assert_eq!(refusal.retry_at(), Some(start(4)));
        }
        other.join().unwrap();
    });
}

/// One thread takes the only permit, in bucket `taken`. Another opens bucket `opened` and takes nothing in it, before
/// or after that, or it stalls before it stores the oldest bucket with permits. A refusal names the time at which the
/// permit is free again.
fn permit_is_taken_beside_a_thread_that_opens_a_bucket(taken: u32, opened: u32) {
    explore(Some(3), move || {
        let limiter = sliding(3, 1);
        // More permits than the limit.
        let other = asks(&limiter, opened, 2);
        assert_eq!(ask(&*limiter, taken, 1), 1);
        let refusal = limiter.try_acquire_at(start(3), 1).refusal().unwrap();
        let retry_at = refusal.retry_at().unwrap();
        let before = Timestamp::from_nanos(retry_at.as_nanos() - 1);
        assert_eq!([before, retry_at].map(|now| limiter.available_at(now)), [0, 1]);
        other.join().unwrap();
    });
}

#[test]
fn bucket_without_permits_is_not_waited_for() {
    permit_is_taken_beside_a_thread_that_opens_a_bucket(3, 2);
    permit_is_taken_beside_a_thread_that_opens_a_bucket(3, 3);
}

#[test]
fn bucket_with_permits_is_waited_for() {
    permit_is_taken_beside_a_thread_that_opens_a_bucket(2, 3);
}

/// Another thread opens bucket 4, in which the permit of bucket 1 is free again, and may stall before it stores the
/// oldest bucket with permits. A refusal names the time at which the permit of bucket 4 is free again.
#[test]
fn permit_that_has_left_is_not_waited_for() {
    explore(None, || {
        let limiter = sliding(3, 1);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        let other = asks(&limiter, 4, 2);
        assert_eq!(ask(&*limiter, 4, 1), 1);
        let refusal = limiter.try_acquire_at(start(4), 1).refusal().unwrap();
        assert_eq!(refusal.retry_at(), Some(start(7)));
        other.join().unwrap();
    });
}

/// Two permits have to leave. Another thread opens buckets 3 and 4, and so recycles the slot of the permits that leave
/// first. A refusal in bucket 2 names the start of bucket 3 nevertheless.
#[test]
fn retry_time_for_two_permits_is_of_the_window_that_was_full() {
    explore(Some(3), || {
        let limiter = sliding(2, 4);
        assert_eq!(ask(&*limiter, 1, 2) + ask(&*limiter, 2, 2), 4);
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || ask(&*limiter, 3, 5) + ask(&*limiter, 4, 5))
        };
        if let Some(refusal) = limiter.try_acquire_at(start(2), 2).refusal() {
            assert_eq!(refusal.retry_at(), Some(start(3)));
        }
        other.join().unwrap();
    });
}

/// Two threads enter a node through a limiter, after a first request. Returns how many of the two are admitted.
fn two_enter(limit: u64) -> u64 {
    let node = node(node_config(2, 2));
    let limiter = sliding(2, limit);
    let enter = |limiter: &Sliding, node: &Node| {
        let decision = limiter.enter_at(node, start(1));
        u64::from(decision.into_result().map(|it| it.into_parts().0.success_at(start(1))).is_ok())
    };
    assert_eq!(enter(&limiter, &node), 1);
    let other = {
        let (limiter, node) = (limiter.clone(), node.clone());
        thread::spawn(move || enter(&limiter, &node))
    };
    enter(&limiter, &node) + other.join().unwrap()
}

#[test]
fn last_entry_is_admitted_once() {
    explore(Some(2), || assert_eq!(two_enter(2), 1));
}

/// The permit of the other thread does not count once more when its pass is recorded.
#[test]
fn no_entry_is_refused_while_a_permit_is_left() {
    explore(Some(2), || assert_eq!(two_enter(3), 2));
}

/// One thread asks with a time that is an hour ahead of the clock, and another with the time of the clock. Together, they
/// take no more than the limit, and no bucket after that of the clock and the lead is opened.
#[test]
fn wrong_time_of_another_thread_moves_a_window_by_the_lead() {
    explore(Some(2), || {
        let clock = ManualClock::new(start(1));
        let limiter = SlidingWindowLimiter::with_clock(window(2), 2, clock).unwrap();
        let limiter = Arc::new(limiter.with_max_lead(LEN));
        let other = asks(&limiter, 7_200, 1);
        let admitted = ask(&*limiter, 1, 2) + other.join().unwrap();
        assert!((1..=2).contains(&admitted), "{admitted}");
        // The newest bucket is the one of the clock, or the next one.
        assert_eq!(limiter.available_at(start(4)), 2);
    });
}

/// As above: a token bucket is ahead of the clock by the lead and one token at most.
#[test]
fn wrong_time_of_another_thread_moves_a_bucket_by_the_lead() {
    explore(None, || {
        let clock = ManualClock::new(start(1));
        let bucket = TokenBucket::with_clock(Rate::new(1, LEN).unwrap(), 1, clock);
        let bucket = Arc::new(bucket.with_max_lead(LEN));
        let other = asks(&bucket, 7_200, 1);
        let admitted = ask(&*bucket, 1, 1) + other.join().unwrap();
        assert!((1..=2).contains(&admitted), "{admitted}");
        assert_eq!(bucket.available_at(start(3)), 1);
    });
}

/// Three requests ask a leaky bucket, two of them at the same time. One goes ahead, one waits, and the last is refused.
#[test]
fn each_request_waits_for_the_one_before() {
    explore(None, || {
        let clock = ManualClock::new(Timestamp::MIN);
        let rate = Rate::new(1, LEN).unwrap();
        let bucket = LeakyBucket::with_clock(rate, LEN, clock).with_max_lead(Duration::MAX);
        let bucket = Arc::new(bucket);
        let others = [(); 2].map(|()| {
            let bucket = bucket.clone();
            thread::spawn(move || bucket.try_acquire_at(start(7), 1))
        });
        let mut decisions = others.map(|other| other.join().unwrap()).to_vec();
        decisions.push(bucket.try_acquire_at(start(7), 1));
        let has = |decision| assert!(decisions.contains(&decision), "{decisions:?}");
        has(Decision::Admitted(()));
        has(Decision::after((), LEN));
        assert_eq!(decisions[2].refusal().unwrap().retry_at(), Some(start(8)));
    });
}

#[test]
fn last_token_is_taken_once() {
    explore(None, || {
        let clock = ManualClock::new(Timestamp::MIN);
        let bucket = TokenBucket::with_clock(Rate::new(1, LEN).unwrap(), 2, clock);
        let bucket = Arc::new(bucket.with_max_lead(Duration::MAX));
        assert_eq!(ask(&*bucket, 7, 1), 1);
        let others = [asks(&bucket, 7, 1), asks(&bucket, 7, 1)];
        let admitted: u64 = others.map(|other| other.join().unwrap()).iter().sum();
        assert_eq!((admitted, bucket.available_at(start(7))), (1, 0));
    });
}

/// A cold service whose limit is 90 in a window of two buckets, with a period of `buckets` buckets. The first `asked` permits
/// are taken in bucket 7.
fn cold(buckets: u32, asked: u64) -> Arc<WarmUp<ManualClock>> {
    let config = WarmUpConfig::new(LEN * buckets, 3.0).unwrap();
    let clock = ManualClock::new(Timestamp::MIN);
    let limiter = WarmUp::with_clock(window(2), 90, config, clock).unwrap();
    let limiter = limiter.with_max_lead(Duration::MAX);
    assert_eq!(ask(&limiter, 7, asked), asked);
    Arc::new(limiter)
}

/// Returns how cold the service is in the next buckets.
fn next_limits(limiter: &WarmUp<ManualClock>) -> [u64; 3] {
    [8, 9, 10].map(|number| limiter.current_limit_at(start(number)))
}

/// Two threads open the second bucket, and count the tokens of the first. The service is then as cold as if one thread
/// alone had done that.
#[test]
fn tokens_are_counted_once() {
    explore(Some(3), || {
        let alone = cold(4, 40);
        ask(&*alone, 8, 91);
        let expected = next_limits(&alone);
        assert!(expected[0] > 30, "the service has begun to warm up");
        let limiter = cold(4, 40);
        let other = asks(&limiter, 8, 91);
        ask(&*limiter, 8, 91);
        other.join().unwrap();
        assert_eq!(next_limits(&limiter), expected);
    });
}

/// A thread changes the limit while another one opens the second bucket and counts the tokens of the first. Neither
/// the change nor the count is lost: the tokens are counted before or after the change.
#[test]
fn change_beside_a_count_of_tokens_is_not_lost() {
    explore(Some(3), || {
        let change_first = cold(4, 40);
        change_first.set_limit(180).unwrap();
        ask(&*change_first, 8, 181);
        let count_first = cold(4, 40);
        ask(&*count_first, 8, 181);
        count_first.set_limit(180).unwrap();
        let expected = [change_first, count_first].map(|limiter| next_limits(&limiter));
        let limiter = cold(4, 40);
        let other = asks(&limiter, 8, 181);
        limiter.set_limit(180).unwrap();
        other.join().unwrap();
        assert_eq!(limiter.limit(), 180);
        let found = next_limits(&limiter);
        assert!(expected.contains(&found), "{found:?}, not one of {expected:?}");
    });
}

/// A thread decides beside a change, and computes the threshold of the bucket from the state before or after it. After
/// the change, each decision uses the new one, although no bucket is opened.
#[test]
fn decision_after_a_change_uses_it() {
    explore(Some(3), || {
        let limiter = cold(1, 0);
        // Opens the bucket. The change then forgets its threshold.
        assert_eq!(ask(&*limiter, 7, 91), 0);
        limiter.set_config(limiter.config());
        let other = asks(&limiter, 7, 1);
        // The first bucket of a cold service with this limit has one permit.
        limiter.set_limit(4).unwrap();
        ask(&*limiter, 7, 1);
        assert_eq!(ask(&*limiter, 7, 1), 0, "over the new limit");
        other.join().unwrap();
    });
}

/// As above, for a refusal: the time to retry is that of the new curve.
#[test]
fn refusal_after_a_change_uses_it() {
    let retry = |limiter: &WarmUp<ManualClock>| {
        limiter.try_acquire_at(start(7), 1).refusal().unwrap().retry_at().unwrap()
    };
    let slow = || WarmUpConfig::new(LEN * 4, 9.0).unwrap();
    explore(Some(4), move || {
        let alone = cold(4, 90);
        let before = retry(&alone);
        alone.set_config(slow());
        let expected = retry(&alone);
        assert_ne!(expected, before, "the whole limit costs another time");
        let limiter = cold(4, 90);
        let other = asks(&limiter, 7, 1);
        limiter.set_config(slow());
        assert_eq!(retry(&limiter), expected);
        assert_eq!(other.join().unwrap(), 0);
        assert_eq!(retry(&limiter), expected);
    });
}

#[test]
fn next_holder_of_a_permit_sees_what_the_former_one_did() {
    explore(None, || {
        let limit = Arc::new(ConcurrencyLimiter::new(1));
        let data = Arc::new(AtomicU64::new(0));
        let others = [(); 2].map(|()| {
            let (limit, data) = (limit.clone(), data.clone());
            thread::spawn(move || {
                let Ok(permit) = limit.try_acquire().at_once() else { return 0 };
                // No other thread has a permit: a load and a store are enough.
                data.store(data.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                drop(permit);
                1
            })
        });
        let admitted: u64 = others.map(|other| other.join().unwrap()).iter().sum();
        assert!(admitted >= 1);
        assert_eq!((data.load(Ordering::Relaxed), limit.in_use()), (admitted, 0));
    });
}
