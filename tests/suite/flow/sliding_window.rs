//! The sliding-window limiter, compared with a sequential model, and in front of a node.

use std::cell::Cell;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::flow::{AllOf, Ask, Decision, LimitError, LimiterExt, Passed, SlidingWindowLimiter};
use leaparray::{
    Clock, Entry, ManualClock, MetricEvent, NodeConfig, Outcome, ResourceNode, Timestamp,
    WindowConfig,
};
use proptest::prelude::*;

use crate::flow::{at, ms};

/// A sequential model of the limiter: a list of the permits that were taken, each with its bucket.
struct Model {
    limit: u64,
    samples: u64,
    newest: u64,
    taken: Vec<(u64, u64)>,
}

impl Model {
    fn of_window(&self, newest: u64) -> u64 {
        self.taken.iter().filter(|(bucket, _)| bucket + self.samples > newest).map(|t| t.1).sum()
    }

    /// Returns the start of each bucket of the window at bucket `bucket`, and its permits.
    fn by_bucket(&self, bucket: u64, len: u64) -> Vec<(u64, u64)> {
        let last = self.newest.max(bucket);
        let permits = |number| self.taken.iter().filter(|t| t.0 == number).map(|t| t.1).sum();
        let first = (last + 1).saturating_sub(self.samples);
        (first..=last).map(|number| (number * len, permits(number))).collect()
    }

    /// Asks for `permits` in a bucket. If they are refused, returns the first bucket in which they
    /// might be admitted; `None` if there is none.
    fn ask(&mut self, bucket: u64, permits: u64) -> Result<(), Option<u64>> {
        if permits == 0 {
            return Ok(());
        }
        self.newest = self.newest.max(bucket);
        if permits > self.limit {
            return Err(None);
        }
        if self.of_window(self.newest) + permits <= self.limit {
            self.taken.push((self.newest, permits));
            return Ok(());
        }
        let mut later = self.newest..;
        Err(later.find(|&newest| self.of_window(newest) + permits <= self.limit))
    }
}

fn steps() -> impl Strategy<Value = Vec<(i64, u64)>> {
    let step = prop_oneof![8 => 0..30_i64, 2 => -50..0_i64, 1 => 30..1_000_i64];
    proptest::collection::vec((step, 0..6_u64), 1..80)
}

proptest! {
    #[test]
    fn sliding_window_limiter_agrees_with_model(
        samples in 1..6_usize, limit in 0..12_u64, begin in 0..100_u64, steps in steps(),
    ) {
        const LEN: u64 = 10;
        let config = WindowConfig::new(samples, ms(LEN * samples as u64)).unwrap();
        let limiter = SlidingWindowLimiter::of_buckets(config, limit).unwrap();
        let mut reckoning =
            Model { limit, samples: samples as u64, newest: 0, taken: Vec::new() };
        let mut time = begin;
        for (step, permits) in steps {
            time = time.saturating_add_signed(step);
            let expected = reckoning.ask(time / LEN, permits);
            let found = limiter.try_acquire_at(at(time), permits).into_result();
            let found = found.map(|_| ()).map_err(|refusal| refusal.retry_at());
            prop_assert_eq!(found, expected.map_err(|bucket| bucket.map(|bucket| at(bucket * LEN))));
            let free = limit - reckoning.of_window(reckoning.newest.max(time / LEN));
            prop_assert_eq!(limiter.quota_at(at(time)).unwrap().remaining, free);
            let by_bucket = limiter.permits_by_bucket_at(at(time));
            let found: Vec<_> = by_bucket.iter().map(|b| (b.start.as_millis(), b.permits)).collect();
            prop_assert_eq!(found, reckoning.by_bucket(time / LEN, LEN));
        }
        // The permits that are free later, without further requests.
        for later in 0..samples as u64 + 2 {
            let free = limit - reckoning.of_window(reckoning.newest.max(time / LEN + later));
            prop_assert_eq!(limiter.quota_at(at(time + later * LEN)).unwrap().remaining, free);
        }
    }
}

#[test]
fn request_for_no_permits_opens_no_bucket() {
    let limiter =
        SlidingWindowLimiter::of_buckets(WindowConfig::new(1, ms(10)).unwrap(), 3).unwrap();
    assert!(limiter.try_acquire_at(at(10), 0).is_admitted());
    assert!(limiter.try_acquire_at(at(8), 3).is_admitted());
    assert_eq!([at(9), at(10)].map(|now| limiter.quota_at(now).unwrap().remaining), [0, 3]);
}

#[test]
fn time_that_goes_back_gives_nothing_back() {
    let limiter =
        SlidingWindowLimiter::of_buckets(WindowConfig::new(4, ms(40)).unwrap(), 2).unwrap();
    assert!(limiter.try_acquire_at(at(100), 1).is_admitted());
    // A stale timestamp counts in the newest bucket.
    assert!(limiter.try_acquire_at(at(5), 1).is_admitted());
    assert!(limiter.try_acquire_at(at(5), 1).is_refused());
    assert!(limiter.try_acquire_at(at(139), 1).is_refused());
    assert!(limiter.try_acquire_at(at(140), 2).is_admitted());
}

#[test]
fn direct_entries_of_a_node_count() {
    let clock = ManualClock::new(at(60_000));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let limiter =
        SlidingWindowLimiter::of_buckets_with_clock(*node.config().short(), 10, clock.clone())
            .unwrap();
    let limiter = limiter.with_node_passes();
    let enter = || limiter.try_enter(&node).map(Entry::success).is_ok();
    Entry::enter_many_at(&node, node.clock().now(), 6).success();
    assert_eq!((0..10).filter(|_| enter()).count(), 4);
    let refusal = limiter.enter_at(&node, Ask::at(clock.now()).many(5)).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(60_500)), "direct requests may leave then");
    let refusal = limiter.enter_at(&node, Ask::at(clock.now()).many(7)).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(61_000)), "some of the four must have left");
    assert_eq!(node.now().long().sum(MetricEvent::Pass), 10);
    assert_eq!(node.now().long().sum(MetricEvent::Block), 6 + 5 + 7);
    clock.advance(ms(1_000));
    // Permits of the next bucket that are reserved before it begins count as passes in it.
    let reservation = node.reserve_next_at(node.clock().now(), 7, 10).unwrap();
    clock.advance(reservation.wait());
    assert_eq!((0..10).filter(|_| enter()).count(), 3);
    Entry::enter_reserved_at(&node, node.clock().now(), reservation).success();
    assert_eq!(node.concurrency(), 0);
}

/// The window ends with the newest bucket in which a request has asked the limiter.
#[test]
fn direct_entries_of_a_later_bucket_do_not_count_yet() {
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(at(60_000)));
    let limiter =
        SlidingWindowLimiter::of_buckets(*node.config().short(), 10).unwrap().with_node_passes();
    Entry::enter_many_at(&node, at(60_500), 10).end_at(at(60_500), Outcome::Success);
    let enter = |now| limiter.try_enter_at(&node, now).map(drop);
    assert!(enter(at(60_499)).is_ok());
    assert!(enter(at(60_500)).is_err());
}

#[test]
fn stale_timestamp_sees_the_entries_since() {
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(at(60_000)));
    let limiter =
        SlidingWindowLimiter::of_buckets(*node.config().short(), 10).unwrap().with_node_passes();
    Entry::enter_many_at(&node, at(60_500), 9).end_at(at(60_500), Outcome::Success);
    let enter =
        |now| limiter.try_enter_at(&node, now).map(|entry| entry.end_at(now, Outcome::Success));
    assert!(enter(at(60_500)).is_ok());
    assert!((0..10).all(|_| enter(at(60_499)).is_err()));
}

#[test]
fn direct_entries_count_from_the_next_bucket_on() {
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(at(60_000)));
    let limiter =
        SlidingWindowLimiter::of_buckets(*node.config().short(), 10).unwrap().with_node_passes();
    let limiter = limiter.with_max_lead(Duration::MAX);
    let admitted = |now| (0..20).filter(|_| limiter.try_enter_at(&node, now).is_ok()).count();
    assert!(limiter.try_enter_at(&node, at(60_000)).is_ok());
    Entry::enter_many_at(&node, at(60_000), 4).end_at(at(60_000), Outcome::Success);
    assert_eq!([60_499, 60_500].map(|now| admitted(at(now))), [9, 0], "14 in the window");
    assert_eq!(admitted(at(61_000)), 10, "all have left");
    Entry::enter_many_at(&node, at(61_000), 3).end_at(at(61_000), Outcome::Success);
    assert_eq!([61_999, 62_000].map(|now| admitted(at(now))), [0, 10]);
}

/// A node with buckets of 100 ms that counts how often it is read.
struct Reads(Cell<u32>);

impl Passed for Reads {
    fn now(&self) -> Timestamp {
        at(60_000)
    }

    fn passed_since(&self, _start: Timestamp, _now: Timestamp) -> u64 {
        self.0.set(self.0.get() + 1);
        1
    }

    fn bucket_end(&self, now: Timestamp) -> Timestamp {
        at(now.as_millis() / 100 * 100 + 100)
    }
}

#[test]
fn node_is_read_once_in_each_bucket() {
    let reads = |bucket_ms: u64, time: &[u64]| {
        let node = Reads(Cell::new(0));
        let window = WindowConfig::new(4, ms(4 * bucket_ms)).unwrap();
        let limiter = SlidingWindowLimiter::of_buckets(window, 100).unwrap().with_node_passes();
        let limiter = limiter.with_max_lead(Duration::MAX);
        for now in time {
            let ask = || limiter.ask(&Ask::at(at(*now)).over(&node));
            assert!((0..5).all(|_| ask().is_admitted()));
        }
        node.0.get()
    };
    let time = [60_000, 60_010, 60_060, 60_099, 60_100, 60_199, 60_200];
    // In buckets of the limiter that are as long, longer and shorter than those of the node.
    assert_eq!([100, 1_000, 50].map(|len| reads(len, &time)), [3, 3, 5]);
    // A stale time is decided in the newest bucket, with what was counted there.
    assert_eq!(reads(100, &[60_100, 60_099, 60_000, 60_199]), 1);
}

/// Returns the most permits of any interval of `length`, of admissions in the order of their times,
/// both ends included.
fn most_of_any_interval(admitted: &[(u64, u64)], length: u64) -> u64 {
    let of_interval = |begin: usize| -> u64 {
        let until = admitted[begin].0 + length;
        admitted[begin..].iter().take_while(|(time, _)| *time <= until).map(|(_, it)| it).sum()
    };
    (0..admitted.len()).map(of_interval).max().unwrap_or(0)
}

proptest! {
    /// Intervals from 1 ns, so that they have fewer than 50 buckets, and buckets that do not divide
    /// them.
    #[test]
    fn no_interval_has_more_than_the_limit(
        length in prop_oneof![1..300_u64, 1..10_000_000_000_u64],
        limit in 1..40_u64,
        steps in proptest::collection::vec((0..1_200_u64, 1..12_u64), 1..300),
    ) {
        let interval = Duration::from_nanos(length);
        // The highest limit of very short buckets.
        let limit = match SlidingWindowLimiter::new(interval, limit) {
            Ok(_) => limit,
            Err(LimitError::TooHigh { max, .. }) => max,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        let limiter = SlidingWindowLimiter::new(interval, limit).unwrap();
        let limiter = limiter.with_max_lead(Duration::MAX);
        let mut now = 3_600_000_000_000;
        let mut admitted = Vec::new();
        for (thousandths, permits) in steps {
            now += length * thousandths / 1_000;
            let time = Timestamp::from_nanos(now);
            match limiter.try_acquire_at(time, permits).refusal() {
                None => admitted.push((now, permits)),
                // Again at the first time at which it can succeed.
                Some(refusal) => if let Some(retry) = refusal.retry_at() {
                    prop_assert!(retry > time);
                    prop_assert!(limiter.try_acquire_at(retry, permits).is_admitted());
                    now = retry.as_nanos();
                    admitted.push((now, permits));
                }
            }
            prop_assert!(most_of_any_interval(&admitted, length) <= limit);
        }
    }
}

/// Two windows side by side, of which each refuses what the other would admit: no permit of a
/// refused request counts in either, so both also admit what they can.
#[test]
fn no_interval_of_two_windows_has_more_than_either_limit() {
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let windows = [(100, 7), (1_000, 30)];
        let [short, long] = windows.map(|(length, limit)| {
            let limiter = SlidingWindowLimiter::new(ms(length), limit).unwrap();
            limiter.with_max_lead(Duration::MAX)
        });
        let both = AllOf::new((&short, &long));
        let (mut admitted, mut now) = (Vec::new(), 60_000);
        while now < 90_000 {
            now += rng.u64(..20);
            let permits = rng.u64(1..4);
            let peeks = [&short, &long].map(|it| it.peek_at(at(now), permits));
            let is_free = peeks.iter().all(|it| it.as_ref().is_some_and(Decision::is_admitted));
            let is_admitted = both.try_acquire_at(at(now), permits).is_admitted();
            assert_eq!(is_admitted, is_free, "seed {seed} at {now}");
            if is_admitted {
                admitted.push((now, permits));
            }
        }
        for (length, limit) in windows {
            assert!(most_of_any_interval(&admitted, length) <= limit, "seed {seed}: {length} ms");
        }
        // The long one is the bottleneck: 30 in 1,020 ms, less what is too large for the rest.
        let all: u64 = admitted.iter().map(|(_, permits)| permits).sum();
        assert!((850..=900).contains(&all), "seed {seed}: {all} of 882");
    }
}

#[test]
fn two_bursts_within_an_interval_are_not_both_admitted() {
    // At the end of one interval and the beginning of the next.
    for offset in (0..1_000).step_by(7) {
        let limiter = SlidingWindowLimiter::new(ms(1_000), 1_000).unwrap();
        let limiter = limiter.with_max_lead(Duration::MAX);
        let ask =
            |time| (0..2_000).filter(|_| limiter.try_acquire_at(at(time), 1).is_admitted()).count();
        let begin = 60_000 + offset;
        assert_eq!([begin, begin + 999, begin + 1_000].map(ask), [1_000, 0, 0], "{offset}");
        assert_eq!(ask(begin + 1_020), 1_000, "{offset}: a bucket is 20 ms");
    }
}

#[test]
fn lasting_demand_gets_at_least_fifty_of_fifty_one_parts_of_the_rate() {
    // Evenly, and in a burst whenever permits are free.
    for (step, at_once) in [(1, 1), (1, 7), (3, 1_000)] {
        let limiter = SlidingWindowLimiter::new(ms(1_000), 700).unwrap();
        let limiter = limiter.with_max_lead(Duration::MAX);
        let mut admitted = 0_u32;
        for time in (60_000..160_000).step_by(step) {
            let one = |_: &u64| limiter.try_acquire_at(at(time), 1).is_admitted();
            admitted += u32::try_from((0..at_once).filter(one).count()).unwrap();
        }
        let share = f64::from(admitted) / 70_000.0;
        assert!((0.98..=1.01).contains(&share), "{share} of the rate, {at_once} every {step} ms");
    }
}

proptest! {
    /// Under lasting demand, each window admits the limit, and is longer than the interval.
    #[test]
    fn window_of_an_interval_is_little_longer(
        length in 3_000..1_000_000_000_000_u64,
        short in 3_000..200_000_u64,
    ) {
        for length in [length, short] {
            let interval = Duration::from_nanos(length);
            let limiter = SlidingWindowLimiter::new(interval, 1).unwrap();
            let share = interval.as_secs_f64() / limiter.config().interval().as_secs_f64();
            let least = if length < 125_000 { 0.96 } else { 0.98 };
            prop_assert!((least..1.0).contains(&share), "{share} of {interval:?}");
        }
    }
}

#[test]
fn no_interval_has_more_than_the_limit_if_threads_race() {
    const THREADS: usize = 4;
    const TURNS: usize = 400;
    let (length, limit) = (1_000, 100);
    let limiter = SlidingWindowLimiter::new(ms(length), limit).unwrap();
    let limiter = &limiter.with_max_lead(Duration::MAX);
    // All threads ask at one time, and go on together.
    let (barrier, times) = (&Barrier::new(THREADS), |turn: usize| 60_000 + turn as u64 * 37);
    let admitted = thread::scope(|scope| {
        let ask = |thread: usize| {
            let permits = 1 + thread as u64 % 2;
            let turns = (0..TURNS).map(move |turn| {
                barrier.wait();
                let one = |_: &u64| limiter.try_acquire_at(at(times(turn)), permits).is_admitted();
                (0..40).filter(one).count() as u64 * permits
            });
            scope.spawn(move || turns.collect::<Vec<_>>())
        };
        let threads: Vec<_> = (0..THREADS).map(ask).collect();
        let all: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        (0..TURNS)
            .map(|turn| (times(turn), all.iter().map(|it| it[turn]).sum()))
            .collect::<Vec<(u64, u64)>>()
    });
    let most = most_of_any_interval(&admitted, length);
    assert!((limit - 1..=limit).contains(&most), "{most} in an interval");
}

#[test]
fn interval_that_no_window_has_is_an_error() {
    for interval in [Duration::ZERO, Duration::MAX, Duration::from_nanos(u64::MAX)] {
        let error = SlidingWindowLimiter::new(interval, 1).unwrap_err();
        assert!(matches!(error, LimitError::NoWindow(_)), "{interval:?}: {error}");
    }
    let longest = Duration::from_nanos(u64::MAX) / 51 * 50;
    assert_eq!(SlidingWindowLimiter::new(longest, 1).unwrap().interval(), longest);
    let error = SlidingWindowLimiter::new(ms(1_000), u64::MAX).unwrap_err();
    let LimitError::TooHigh { max, .. } = error else { panic!("{error}") };
    assert_eq!(max, 4_194_303);
    let error = SlidingWindowLimiter::new(Duration::MAX, 1).unwrap_err();
    assert!(error.to_string().contains(&format!("{:?}", Duration::MAX)), "{error}");
}

#[test]
#[should_panic(expected = "make it by `of_buckets`")]
fn limiter_of_any_interval_does_not_count_the_passes_of_a_node() {
    let _ = SlidingWindowLimiter::new(ms(1_000), 10).unwrap().with_node_passes();
}

#[test]
fn quota_has_the_interval_and_not_the_window() {
    let limiter = SlidingWindowLimiter::new(ms(1_000), 10).unwrap();
    let quota = limiter.quota_at(at(60_000)).unwrap();
    assert_eq!((quota.window, limiter.config().interval()), (Some(ms(1_000)), ms(1_020)));
}
