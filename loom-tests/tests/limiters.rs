//! The limiters: none admits more than its limit, and none refuses a request for which a permit was
//! free all the time.
#![cfg(loom)]

use std::time::Duration;

use leaparray::flow::{
    AllOf, ConcurrencyLimiter, Decision, LeakyBucket, Limiter, LimiterExt, Rate,
    SlidingWindowLimiter, TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::{ManualClock, Outcome, Timestamp, WindowConfig};
use leaparray_loom_tests::{LEN, Node, explore, node, node_config, start};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

type Sliding = SlidingWindowLimiter<ManualClock>;

fn window(samples: u32) -> WindowConfig {
    WindowConfig::new(samples as usize, LEN * samples).unwrap()
}

fn sliding(samples: u32, limit: u64) -> Arc<Sliding> {
    Arc::new(unshared(samples, limit))
}

fn unshared(samples: u32, limit: u64) -> Sliding {
    let clock = ManualClock::new(Timestamp::MIN);
    let limiter =
        SlidingWindowLimiter::of_buckets_with_clock(window(samples), limit, clock).unwrap();
    // The models give the times, and the clock stands still.
    limiter.with_max_lead(Duration::MAX)
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

/// Two threads ask for the last permit, in buckets 2 and 3. The request of bucket 2 is in time, or
/// it is late and decided in bucket 3. One of the two is admitted.
#[test]
fn last_permit_is_taken_once_across_a_rollover() {
    explore(None, || {
        let limiter = sliding(3, 2);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        let other = asks(&limiter, 2, 1);
        let admitted = ask(&*limiter, 3, 1) + other.join().unwrap();
        assert_eq!(admitted, 1);
        assert_eq!(
            limiter.quota_at(start(4)).unwrap().remaining,
            1,
            "only the permit of bucket 1 has left"
        );
    });
}

/// Three threads ask in three buckets for more than the two permits that are left. One or two are
/// admitted, and each is counted in the window.
#[test]
fn limit_holds_for_three_requests_across_three_buckets() {
    explore(Some(2), || {
        let limiter = sliding(5, 3);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        let others = [asks(&limiter, 2, 2), asks(&limiter, 4, 2)];
        let admitted = ask(&*limiter, 5, 1)
            + others.map(|other| other.join().unwrap())[..].iter().sum::<u64>();
        assert!((1..=2).contains(&admitted), "{admitted}");
        assert_eq!(limiter.quota_at(start(5)).unwrap().remaining, 3 - 1 - admitted);
        // The permit of bucket 1 leaves.
        assert_eq!(limiter.quota_at(start(6)).unwrap().remaining, 3 - admitted);
    });
}

/// Three threads ask in bucket 3, in which the two permits of bucket 1 have left the window. Each
/// of the two is free again once, whichever thread opens the bucket.
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

/// A thread that opens bucket 2 may stall before it notes bucket 1. Another thread takes the only
/// permit in bucket 3, whose note is in the same slot. The permit is not free again in bucket 4.
#[test]
fn stalled_note_replaces_no_newer_note() {
    explore(Some(2), || {
        let limiter = sliding(2, 1);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        // More permits than the limit: the request only opens the bucket.
        let other = asks(&limiter, 2, 2);
        assert_eq!(ask(&*limiter, 3, 1), 1);
        assert_eq!(ask(&*limiter, 4, 1), 0);
        other.join().unwrap();
        assert_eq!(limiter.quota_at(start(4)).unwrap().remaining, 0);
    });
}

/// No permit was taken in bucket 3. A thread that stalls before it notes that adds up slots that
/// other threads have recycled. It does not find bucket 1 there, and takes its permit for a permit
/// of bucket 3. If it noted that, no permit would be free in bucket 5.
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

/// Two threads ask in buckets 2 and 3. A permit is free for each of them from first to last, so
/// both are admitted.
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
            thread::spawn(move || limiter.quota_at(start(3)).unwrap().remaining)
        };
        // One permit of the window that ends with bucket 3 is taken before: in bucket 2.
        assert_eq!(ask(&*limiter, 3, 2), 2);
        let available = reader.join().unwrap();
        assert!([3, 1].contains(&available), "{available}");
    });
}

/// One thread reads the window that ends with bucket 3 while another opens buckets 4 and 5, and so
/// recycles the slot of bucket 1. The reading is of one moment. Without a bound, there are 422,000
/// executions.
#[test]
fn reading_beside_a_lap_is_of_one_moment() {
    explore(Some(3), || {
        let limiter = sliding(3, 4);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        assert_eq!(ask(&*limiter, 2, 1), 1);
        let reader = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.quota_at(start(3)).unwrap().remaining)
        };
        assert_eq!(ask(&*limiter, 4, 1), 1);
        assert_eq!(ask(&*limiter, 5, 1), 1);
        let available = reader.join().unwrap();
        assert!((2..=3).contains(&available), "{available}");
    });
}

/// One thread reads the permits of each bucket while another opens buckets 3 and 4. The reading is
/// of one moment: of before, or of after any one of the steps.
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

/// Another thread opens buckets 4 and 5, and so recycles the slot of the permit that leaves first.
/// A refusal in bucket 3 names the start of bucket 4 nevertheless.
#[test]
fn retry_time_is_of_the_window_that_was_full() {
    explore(Some(3), || {
        let limiter = sliding(3, 2);
        assert_eq!(ask(&*limiter, 1, 1) + ask(&*limiter, 3, 1), 2);
        // On the thread that loom runs second: it does not try a load of another thread before its
        // own load and read-modify-write.
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || {
                if let Some(refusal) = limiter.try_acquire_at(start(3), 1).refusal() {
                    assert_eq!(refusal.retry_at(), Some(start(4)));
                }
            })
        };
        // More permits than the limit: the requests only open the buckets.
        assert_eq!(ask(&*limiter, 4, 3) + ask(&*limiter, 5, 3), 0);
        other.join().unwrap();
    });
}

/// Two threads are refused in bucket 2, and the second finds the time that the first has stored. A
/// third thread opens buckets 3 and 4, and so recycles the slot of the permit that leaves first. A
/// refusal in bucket 2 names the start of bucket 3 nevertheless. No preemption is needed for a
/// thread to load a stale word, and two are 550,000 executions.
#[test]
fn stored_retry_time_is_of_the_window_that_was_full() {
    explore(Some(1), || {
        let limiter = sliding(2, 3);
        assert_eq!(ask(&*limiter, 1, 2) + ask(&*limiter, 2, 1), 3);
        let refused = |limiter: &Sliding| {
            // It is admitted in a later bucket, if the third thread has opened one.
            let decision = limiter.try_acquire_at(start(2), 1);
            let retry_at = decision.refusal().and_then(|refusal| refusal.retry_at());
            assert!(retry_at.is_none_or(|retry_at| retry_at == start(3)), "{retry_at:?}");
        };
        // The second thread asks only if the first has asked: before, it finds no stored time.
        // Relaxed, so it acquires nothing, and may still find bucket 2 the newest.
        let asked = Arc::new(AtomicU64::new(0));
        let first = {
            let (limiter, asked) = (limiter.clone(), asked.clone());
            thread::spawn(move || {
                refused(&limiter);
                asked.store(1, Ordering::Relaxed);
            })
        };
        let second = {
            let limiter = limiter.clone();
            thread::spawn(move || {
                if asked.load(Ordering::Relaxed) == 1 {
                    refused(&limiter);
                }
            })
        };
        // More permits than the limit: the requests only open the buckets.
        assert_eq!(ask(&*limiter, 3, 4) + ask(&*limiter, 4, 4), 0);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// One thread takes the only permit, in bucket `taken`. Another opens bucket `opened` and takes
/// nothing in it, before or after that. A refusal names the time at which the permit is free again.
fn permit_is_taken_beside_a_thread_that_opens_a_bucket(taken: u32, opened: u32) {
    explore(Some(3), move || {
        let limiter = sliding(3, 1);
        // More permits than the limit.
        let other = asks(&limiter, opened, 2);
        assert_eq!(ask(&*limiter, taken, 1), 1);
        let refusal = limiter.try_acquire_at(start(3), 1).refusal().unwrap();
        let retry_at = refusal.retry_at().unwrap();
        let before = Timestamp::from_nanos(retry_at.as_nanos() - 1);
        assert_eq!([before, retry_at].map(|now| limiter.quota_at(now).unwrap().remaining), [0, 1]);
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

/// Another thread opens bucket 4, in which the permit of bucket 1 is free again. A refusal names
/// the time at which the permit of bucket 4 is free again.
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

/// Two permits have to leave. Another thread opens buckets 3 and 4, and so recycles the slot of the
/// permits that leave first. A refusal in bucket 2 names the start of bucket 3 nevertheless.
#[test]
fn retry_time_for_two_permits_is_of_the_window_that_was_full() {
    explore(Some(3), || {
        let limiter = sliding(2, 4);
        assert_eq!(ask(&*limiter, 1, 2) + ask(&*limiter, 2, 2), 4);
        // On the thread that loom runs second, as above.
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || {
                if let Some(refusal) = limiter.try_acquire_at(start(2), 2).refusal() {
                    assert_eq!(refusal.retry_at(), Some(start(3)));
                }
            })
        };
        assert_eq!(ask(&*limiter, 3, 5) + ask(&*limiter, 4, 5), 0);
        other.join().unwrap();
    });
}

/// After a first request, two threads enter a node through a limiter. The permit and the pass of
/// the first request are taken one by one, so that the direct requests are not counted yet, and
/// each of the two may count them. Returns how many of the two are admitted.
fn two_enter(limit: u64) -> u64 {
    let node = node(node_config(2, 2));
    let limiter = Arc::new(unshared(2, limit).with_node_passes());
    let enter = |limiter: &Sliding, node: &Node| {
        let decision = limiter.enter_at(node, start(1));
        u64::from(
            decision
                .into_result()
                .map(|it| it.into_parts().0.end_at(start(1), Outcome::Success))
                .is_ok(),
        )
    };
    assert!(limiter.try_acquire_at(start(1), 1).is_admitted());
    node.enter_at(start(1)).end_at(start(1), Outcome::Success);
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

/// One thread asks with a time that is an hour ahead of the clock, and another with the time of the
/// clock. Together, they take no more than the limit. The last bucket that is opened is the bucket
/// of the clock plus the lead.
#[test]
fn wrong_time_of_another_thread_moves_a_window_by_the_lead() {
    explore(Some(2), || {
        let clock = ManualClock::new(start(1));
        let limiter = SlidingWindowLimiter::of_buckets_with_clock(window(2), 2, clock).unwrap();
        let limiter = Arc::new(limiter.with_max_lead(LEN));
        let other = asks(&limiter, 7_200, 1);
        let admitted = ask(&*limiter, 1, 2) + other.join().unwrap();
        assert!((1..=2).contains(&admitted), "{admitted}");
        // The newest bucket is the one of the clock, or the next one.
        assert_eq!(limiter.quota_at(start(4)).unwrap().remaining, 2);
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
        assert_eq!(bucket.quota_at(start(3)).unwrap().remaining, 1);
    });
}

/// Three requests ask a leaky bucket, two of them at the same time. One goes ahead, one waits, and
/// the last is refused.
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

/// Gives back a permit that was taken in bucket `number`, on a thread of its own.
fn refunds<L: Limiter + Send + Sync + 'static>(
    limiter: &Arc<L>,
    number: u32,
) -> thread::JoinHandle<bool> {
    let limiter = limiter.clone();
    thread::spawn(move || limiter.refund_at(start(number), 1, Duration::ZERO))
}

/// One thread gives a permit back while two others ask for one. Another one is free all the time,
/// so one or both of them are admitted, and no permit is lost.
#[test]
fn permit_that_is_given_back_is_free_once() {
    explore(None, || {
        let limiter = sliding(2, 2);
        assert_eq!(ask(&*limiter, 1, 1), 1);
        let (back, other) = (refunds(&limiter, 1), asks(&limiter, 1, 1));
        let admitted = ask(&*limiter, 1, 1) + other.join().unwrap();
        assert!(back.join().unwrap(), "the bucket is the newest one");
        assert!((1..=2).contains(&admitted), "{admitted}");
        assert_eq!(limiter.quota_at(start(1)).unwrap().remaining, 2 - admitted);
    });
}

/// One thread gives a permit of bucket 1 back while others ask in buckets 1 and 2. The permit is
/// given back before bucket 1 is closed, or it leaves with that bucket.
#[test]
fn permit_is_given_back_before_its_bucket_is_closed() {
    explore(Some(3), || {
        let limiter = sliding(2, 3);
        assert_eq!(ask(&*limiter, 1, 2), 2);
        let (back, other) = (refunds(&limiter, 1), asks(&limiter, 1, 1));
        let admitted = ask(&*limiter, 2, 1) + other.join().unwrap();
        let is_back = back.join().unwrap();
        assert!((1..=2).contains(&admitted) && (is_back || admitted == 1));
        let taken = 2 + admitted - u64::from(is_back);
        assert_eq!(limiter.quota_at(start(2)).unwrap().remaining, 3 - taken);
        let (newest, before) = {
            let buckets = limiter.permits_by_bucket_at(start(2));
            (buckets[1].permits, buckets[0].permits)
        };
        assert_eq!(newest + before, taken);
        assert_eq!(limiter.quota_at(start(3)).unwrap().remaining, 3 - newest);
        assert_eq!(ask(&*limiter, 3, 3 - newest), 3 - newest);
    });
}

/// Another thread reads the permits of each bucket while permits are taken and given back: the
/// reading is of one moment.
#[test]
fn reading_beside_a_refund_is_of_one_moment() {
    explore(Some(3), || {
        let limiter = sliding(2, 9);
        assert_eq!(ask(&*limiter, 1, 1) + ask(&*limiter, 2, 2), 3);
        let reader = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.permits_by_bucket_at(start(2)))
        };
        assert!(limiter.refund_at(start(2), 2, Duration::ZERO));
        assert_eq!(ask(&*limiter, 2, 2) + ask(&*limiter, 3, 4), 6);
        let found: Vec<_> = reader.join().unwrap().iter().map(|b| (b.start, b.permits)).collect();
        let window = |last, permits: [u64; 2]| {
            vec![(start(last - 1), permits[0]), (start(last), permits[1])]
        };
        let moments = [window(2, [1, 2]), window(2, [1, 0]), window(3, [2, 0]), window(3, [2, 4])];
        assert!(moments.contains(&found), "{found:?}");
    });
}

/// As [`permit_that_is_given_back_is_free_once`], for a token bucket.
#[test]
fn token_that_is_given_back_is_free_once() {
    explore(None, || {
        let clock = ManualClock::new(start(7));
        let bucket = Arc::new(TokenBucket::with_clock(Rate::new(1, LEN).unwrap(), 2, clock));
        assert_eq!(ask(&*bucket, 7, 1), 1);
        let (back, other) = (refunds(&bucket, 7), asks(&bucket, 7, 1));
        let admitted = ask(&*bucket, 7, 1) + other.join().unwrap();
        assert!(back.join().unwrap());
        assert!((1..=2).contains(&admitted), "{admitted}");
        assert_eq!(bucket.quota_at(start(7)).unwrap().remaining, 2 - admitted);
    });
}

/// One thread gives tokens back while the time passes, and another thread takes an added token.
/// Added tokens do not count twice, whenever the first thread has read the clock.
#[test]
fn tokens_are_given_back_by_a_clock_not_older_than_the_bucket() {
    explore(None, || {
        let clock = ManualClock::new(start(7));
        let rate = Rate::new(1, LEN).unwrap();
        let bucket = Arc::new(TokenBucket::with_clock(rate, 2, clock.clone()));
        assert_eq!(ask(&*bucket, 7, 2), 2);
        let back = {
            let bucket = bucket.clone();
            thread::spawn(move || bucket.refund_at(start(7), 2, Duration::ZERO))
        };
        clock.set(start(9));
        assert_eq!(ask(&*bucket, 9, 1), 1);
        back.join().unwrap();
        assert_eq!(bucket.quota_at(start(9)).unwrap().remaining, 1);
    });
}

/// One thread gives back the time of a request while another places a request after it, or in its
/// place.
#[test]
fn time_of_a_leaky_bucket_is_given_back_if_no_later_request_was_placed() {
    explore(None, || {
        let clock = ManualClock::new(start(7));
        let bucket = Arc::new(LeakyBucket::with_clock(Rate::new(1, LEN).unwrap(), LEN, clock));
        assert_eq!(bucket.try_acquire_at(start(7), 1), Decision::Admitted(()));
        let back = refunds(&bucket, 7);
        let decision = bucket.try_acquire_at(start(7), 1);
        if back.join().unwrap() {
            assert_eq!(decision, Decision::Admitted(()), "in its place");
        } else {
            assert_eq!(decision, Decision::after((), LEN), "after it");
        }
        // An interval later, the next request waits as long.
        assert_eq!(bucket.try_acquire_at(start(8), 1), Decision::after((), decision.wait()));
    });
}

/// Two threads ask two limiters together, and a third one asks the second limiter alone. No limit
/// is exceeded, and only the admitted requests are charged.
#[test]
fn request_to_two_limiters_is_charged_to_both_or_to_none() {
    explore(Some(1), || {
        let both = Arc::new(AllOf::new((unshared(1, 1), unshared(1, 1))));
        let other = asks(&both, 1, 1);
        let beside = {
            let both = both.clone();
            thread::spawn(move || ask(&both.limiters().1, 1, 1))
        };
        let admitted = ask(&*both, 1, 1) + other.join().unwrap();
        let beside = beside.join().unwrap();
        assert!(admitted + beside <= 1, "{admitted} and {beside}");
        let (first, second) = both.limiters();
        let available =
            [first, second].map(|limiter| limiter.quota_at(start(1)).unwrap().remaining);
        assert_eq!(available, [1 - admitted, 1 - admitted - beside]);
        assert_eq!(ask(&*both, 1, 1), 1 - admitted - beside, "what is free can be taken");
    });
}

/// A token bucket of two tokens, one of which is taken.
fn one_token() -> Arc<TokenBucket<ManualClock>> {
    let clock = ManualClock::new(Timestamp::MIN);
    let bucket = TokenBucket::with_clock(Rate::new(1, LEN).unwrap(), 2, clock);
    let bucket = Arc::new(bucket.with_max_lead(Duration::MAX));
    assert_eq!(ask(&*bucket, 7, 1), 1);
    bucket
}

/// Two threads ask for the last token while a third one changes the rate. One of them gets it, by
/// the old settings or by the new ones.
#[test]
fn last_token_is_taken_once_beside_a_change() {
    explore(Some(3), || {
        let bucket = one_token();
        let others = [asks(&bucket, 7, 1), asks(&bucket, 7, 1)];
        bucket.reconfigure_at(start(7), Rate::new(1, 2 * LEN).unwrap(), 2);
        let admitted: u64 = others.map(|other| other.join().unwrap()).iter().sum();
        assert_eq!((admitted, bucket.quota_at(start(7)).unwrap().remaining), (1, 0));
        assert_eq!([8, 9, 11].map(|now| bucket.quota_at(start(now)).unwrap().remaining), [0, 1, 2]);
    });
}

/// One thread takes a token between two changes, beside them or after them, and another one reads
/// the bucket. No token is lost, and each reading is of one version.
#[test]
fn reading_beside_two_changes_is_of_one_version() {
    explore(Some(2), || {
        let bucket = one_token();
        let other = asks(&bucket, 7, 1);
        let reader = {
            let bucket = bucket.clone();
            thread::spawn(move || bucket.quota_at(start(7)).unwrap())
        };
        let rate = Rate::new(1, LEN).unwrap();
        bucket.reconfigure_at(start(7), rate, 5);
        bucket.reconfigure_at(start(7), rate, 3);
        assert_eq!(other.join().unwrap(), 1);
        let quota = reader.join().unwrap();
        assert!(quota.remaining <= 1 && [2, 5, 3].contains(&quota.limit));
        let missing = quota.reset.unwrap().saturating_since(start(7));
        assert_eq!(missing, LEN * u32::try_from(quota.limit - quota.remaining).unwrap());
        assert_eq!((bucket.capacity(), bucket.quota_at(start(7)).unwrap().remaining), (3, 0));
    });
}

/// Two threads change the settings. One change is after the other, and no token is lost or made.
#[test]
fn two_changes_take_turns() {
    explore(Some(3), || {
        let bucket = one_token();
        let rate = |len| Rate::new(1, len).unwrap();
        let other = {
            let bucket = bucket.clone();
            thread::spawn(move || bucket.reconfigure_at(start(7), rate(LEN), 5))
        };
        bucket.reconfigure_at(start(7), rate(2 * LEN), 3);
        other.join().unwrap();
        let settings = (bucket.rate(), bucket.capacity());
        assert!([(rate(LEN), 5), (rate(2 * LEN), 3)].contains(&settings));
        assert_eq!(bucket.quota_at(start(7)).unwrap().remaining, 1);
    });
}

/// Two requests ask a leaky bucket while its rate changes. Each is due an interval after the one
/// before it, by the old rate or by the new one, and a request that asks later is by the new one.
#[test]
fn requests_beside_a_change_of_the_pace_are_apart() {
    explore(Some(3), || {
        let clock = ManualClock::new(Timestamp::MIN);
        let rate = |len| Rate::new(1, len).unwrap();
        let bucket = LeakyBucket::with_clock(rate(LEN), LEN * 9, clock);
        let bucket = Arc::new(bucket.with_max_lead(Duration::MAX));
        assert_eq!(bucket.try_acquire_at(start(7), 1), Decision::Admitted(()));
        let others = [(); 2].map(|()| {
            let bucket = bucket.clone();
            thread::spawn(move || bucket.try_acquire_at(start(7), 1).wait())
        });
        bucket.reconfigure(rate(2 * LEN), LEN * 9);
        let mut waits = others.map(|other| other.join().unwrap()).to_vec();
        waits.sort();
        let possible = [[1, 2], [1, 3], [2, 4]].map(|lens| lens.map(|len: u32| LEN * len).to_vec());
        assert!(possible.contains(&waits), "{waits:?}");
        assert_eq!(bucket.try_acquire_at(start(7), 1).wait(), waits[1] + 2 * LEN);
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
        assert_eq!((admitted, bucket.quota_at(start(7)).unwrap().remaining), (1, 0));
    });
}

/// A cold service whose limit is 90 in a window of two buckets, with a period of `buckets` buckets.
/// The first `asked` permits are taken in bucket 7.
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

/// Two threads open the second bucket, and count the tokens of the first. The service is then as
/// cold as if one thread alone had done that.
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

/// A thread changes the limit while another one opens the second bucket and counts the tokens of
/// the first. Neither the change nor the count is lost: the tokens are counted before or after the
/// change.
#[test]
fn change_beside_a_count_of_tokens_is_not_lost() {
    explore(Some(3), || {
        let change_first = cold(4, 40);
        let config = change_first.config();
        change_first.reconfigure(180, config).unwrap();
        ask(&*change_first, 8, 181);
        let count_first = cold(4, 40);
        ask(&*count_first, 8, 181);
        count_first.reconfigure(180, config).unwrap();
        let expected = [change_first, count_first].map(|limiter| next_limits(&limiter));
        let limiter = cold(4, 40);
        let other = asks(&limiter, 8, 181);
        limiter.reconfigure(180, config).unwrap();
        other.join().unwrap();
        assert_eq!(limiter.limit(), 180);
        let found = next_limits(&limiter);
        assert!(expected.contains(&found), "{found:?}, not one of {expected:?}");
    });
}

/// A thread decides beside a change, and computes the threshold of the bucket from the state before
/// or after it. After the change, each decision uses the new one, although no bucket is opened.
#[test]
fn decision_after_a_change_uses_it() {
    explore(Some(3), || {
        let limiter = cold(1, 0);
        // Opens the bucket. The change then forgets its threshold.
        assert_eq!(ask(&*limiter, 7, 91), 0);
        let config = limiter.config();
        limiter.reconfigure(limiter.limit(), config).unwrap();
        let other = asks(&limiter, 7, 1);
        // The first bucket of a cold service with this limit has one permit.
        limiter.reconfigure(4, config).unwrap();
        ask(&*limiter, 7, 1);
        assert_eq!(ask(&*limiter, 7, 1), 0, "over the new limit");
        other.join().unwrap();
    });
}

/// As above, for a refusal: the time to retry follows from the new curve.
#[test]
fn refusal_after_a_change_uses_it() {
    let retry = |limiter: &WarmUp<ManualClock>| {
        limiter.try_acquire_at(start(7), 1).refusal().unwrap().retry_at().unwrap()
    };
    let fast = || WarmUpConfig::new(LEN * 4, 1.5).unwrap();
    explore(Some(4), move || {
        let alone = cold(4, 90);
        let before = retry(&alone);
        alone.reconfigure(alone.limit(), fast()).unwrap();
        let expected = retry(&alone);
        assert_ne!(expected, before, "the whole limit costs another time");
        let limiter = cold(4, 90);
        let other = asks(&limiter, 7, 1);
        limiter.reconfigure(limiter.limit(), fast()).unwrap();
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
