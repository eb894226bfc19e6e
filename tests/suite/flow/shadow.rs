//! Limiters in the shadow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaparray::flow::shadow::{Mode, Rollout, Shadow, Share};
use leaparray::flow::watch::{Watch, WatchedMetric, WatchedState};
use leaparray::flow::{
    AllOf, Ask, ConcurrencyLimiter, Decision, FixedWindowLimiter, Keyed, LeakyBucket, Limiter,
    LimiterExt, Reason, Refusal, Retry, SlidingWindowLimiter, TokenBucket, WaitQueue,
};
use leaparray::{ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
use proptest::prelude::*;

use crate::flow::{at, ms, rate, remaining};

fn per_million(parts: u32) -> Share {
    Share::per_million(parts).unwrap()
}

/// Asks both of two equal limiters, one of them in the shadow, the questions of a trace: the times
/// between them in milliseconds, the permits, and whether the request can wait.
fn shadow_agrees<L: Limiter<Permit = ()>>(make: impl Fn() -> L, trace: &[(u64, u64, bool)]) {
    let (enforced, shadow) = (make(), Shadow::new(make(), Mode::Shadow));
    let (mut now, mut refused, mut delayed) = (at(60_000), 0, 0);
    for &(after, permits, can_wait) in trace {
        now = now.saturating_add(ms(after));
        let ask = Ask::at(now).many(permits);
        let ask = if can_wait { ask } else { ask.at_once() };
        match enforced.ask(&ask) {
            Decision::Admitted(()) => {}
            Decision::Wait(_) => delayed += 1,
            Decision::Refused(_) => refused += 1,
        }
        assert_eq!(shadow.foretell(&ask.again()), Some(Decision::Admitted(())));
        assert!(shadow.ask(&ask).is_admitted());
        let counts = shadow.counts();
        assert_eq!((counts.would_refuse, counts.would_delay), (refused, delayed));
        assert_eq!(shadow.limiter().quota_at(now), enforced.quota_at(now));
    }
    assert_eq!(shadow.counts().enforced, 0);
}

proptest! {
    /// Beyond the first refusal, and to the last: the trace does not depend on the answers.
    #[test]
    fn shadow_counts_what_enforcement_refuses(
        trace in prop::collection::vec((0..400_u64, 0..8_u64, any::<bool>()), 1..100),
    ) {
        let clock = || ManualClock::new(at(60_000));
        let unbounded = Duration::MAX;
        shadow_agrees(|| TokenBucket::with_clock(rate(10, 1_000), 5, clock())
            .with_max_lead(unbounded), &trace);
        shadow_agrees(|| LeakyBucket::with_clock(rate(10, 1_000), ms(300), clock())
            .with_max_lead(unbounded), &trace);
        shadow_agrees(|| SlidingWindowLimiter::with_clock(ms(1_000), 6, clock()).unwrap()
            .with_max_lead(unbounded), &trace);
        shadow_agrees(|| FixedWindowLimiter::with_clock(ms(1_000), 6, clock()).unwrap()
            .with_max_lead(unbounded), &trace);
    }

    /// After each refusal, the number of those carried out is the sum of the shares, rounded down.
    #[test]
    fn share_of_requests_is_exact_while_it_changes(
        shares in prop::collection::vec((0..=1_000_000_u32, 1..50_u64), 1..20),
    ) {
        let limiter = Shadow::new(closed(), Mode::Shadow);
        let (mut sum, mut asked, mut refused) = (0, 0, 0);
        for (parts, requests) in shares {
            limiter.set_mode(Mode::Requests(per_million(parts)));
            for _ in 0..requests {
                (sum, asked) = (sum + u64::from(parts), asked + 1);
                refused += u64::from(limiter.try_acquire_at(at(60_000), 1).is_refused());
                prop_assert_eq!(refused, sum / 1_000_000);
            }
        }
        let counts = limiter.counts();
        prop_assert_eq!((counts.enforced, counts.would_refuse), (refused, asked - refused));
    }
}

/// A limiter that refuses each request.
fn closed() -> FixedWindowLimiter<ManualClock> {
    FixedWindowLimiter::with_clock(ms(1_000), 0, ManualClock::new(at(60_000))).unwrap()
}

#[test]
fn limiter_that_is_off_is_not_asked() {
    let bucket = TokenBucket::with_clock(rate(1, 1_000), 1, ManualClock::new(at(60_000)));
    let limiter = Shadow::new(bucket, Mode::Off);
    assert!((0..5).all(|_| limiter.try_acquire_at(at(60_000), 1).is_admitted()));
    assert_eq!(limiter.limiter().quota_at(at(60_000)).unwrap().remaining, 1);
    limiter.set_mode(Mode::Enforce);
    let admitted = [(); 2].map(|()| limiter.try_acquire_at(at(60_000), 1).is_admitted());
    assert_eq!(admitted, [true, false]);
    assert_eq!((limiter.counts().would_refuse, limiter.counts().enforced), (0, 1));
}

/// Each decision is by one mode: a request goes ahead and is counted as let through, or is refused
/// and counted as that.
#[test]
fn mode_changes_between_whole_decisions() {
    const ASKS: u64 = 5_000;
    let limiter = &Shadow::new(closed(), Mode::Shadow);
    let modes = [Mode::Enforce, Mode::Requests(per_million(500_000)), Mode::Shadow];
    let refused: u64 = std::thread::scope(|scope| {
        let ask = || (0..ASKS).filter(|_| limiter.try_acquire_at(at(60_000), 1).is_refused());
        let threads = [(); 3].map(|()| scope.spawn(move || ask().count() as u64));
        for mode in modes.iter().cycle().take(500) {
            limiter.set_mode(*mode);
        }
        threads.map(|it| it.join().unwrap()).iter().sum()
    });
    let counts = limiter.counts();
    assert_eq!((counts.enforced, counts.would_refuse), (refused, 3 * ASKS - refused));
    assert_eq!(limiter.mode(), Mode::Requests(per_million(500_000)), "the last of 500");
}

#[test]
fn combination_is_refused_by_what_is_enforced() {
    let clock = ManualClock::new(at(60_000));
    let window = |limit| FixedWindowLimiter::with_clock(ms(1_000), limit, clock.clone()).unwrap();
    let both = AllOf::new((Shadow::new(window(2), Mode::Shadow), window(9)));
    let ask = |requests: u64| (0..requests).filter(|_| both.try_acquire().is_refused()).count();
    assert_eq!(ask(4), 0);
    let (shadow, other) = both.limiters();
    assert_eq!((shadow.counts().would_refuse, remaining(other)), (2, 5));
    shadow.set_mode(Mode::Enforce);
    assert_eq!((ask(3), remaining(other)), (3, 5), "charged to neither");
    assert_eq!(shadow.counts().enforced, 3);
    shadow.set_mode(Mode::Requests(per_million(500_000)));
    assert_eq!((ask(10), remaining(other)), (5, 0), "each second one");
    assert_eq!((shadow.counts().enforced, shadow.counts().would_refuse), (7, 7));
    assert_eq!((ask(4), shadow.counts().would_refuse), (4, 7), "the others did not go ahead");
}

/// Would admit each request, and refuses the first one.
struct RefusesFirst(AtomicBool);

impl Limiter for RefusesFirst {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        if self.0.swap(true, Ordering::Relaxed) {
            return Decision::Admitted(());
        }
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::At(at(60_100))))
    }

    fn peek(&self, _ask: &Ask<'_>) -> Option<Decision> {
        Some(Decision::Admitted(()))
    }
}

/// The other limiter refuses the request after the shadow has let it through.
#[test]
fn request_that_asks_again_counts_for_each_decision() {
    let clock = ManualClock::new(at(60_000));
    let none = FixedWindowLimiter::with_clock(ms(1_000), 0, clock.clone()).unwrap();
    let shadow = Shadow::new(none, Mode::Shadow);
    let queue = WaitQueue::new(AllOf::new((shadow, RefusesFirst(AtomicBool::new(false)))));
    assert!(queue.acquire_by(1, ms(5_000), |wait| clock.advance(wait)).is_ok());
    assert_eq!(queue.limiter().limiters().0.counts().would_refuse, 2);
}

/// The draw is made before the permits of the others are taken, which may give none back.
#[test]
fn request_that_is_drawn_is_charged_to_no_other_limiter() {
    let clock = ManualClock::new(at(60_000));
    let bucket = TokenBucket::with_clock(rate(1, 60_000), 10, clock);
    let keyed = Keyed::<u64, _>::new(bucket, 10).unwrap();
    let half = Mode::Requests(per_million(500_000));
    let both = AllOf::new((keyed.of_key(&7), Shadow::new(closed(), half)));
    assert_eq!((0..8).filter(|_| both.try_acquire().is_refused()).count(), 4);
    assert_eq!(remaining(&both.limiters().0), 6);
}

#[test]
fn queue_over_a_shadow_makes_no_request_wait() {
    let clock = ManualClock::new(at(60_000));
    let bucket = TokenBucket::with_clock(rate(1, 1_000), 1, clock.clone());
    let queue = WaitQueue::new(Shadow::new(bucket, Mode::Shadow));
    let acquire = || queue.acquire_by(1, ms(5_000), |wait| clock.advance(wait)).map(drop);
    assert!((0..3).all(|_| acquire().is_ok()));
    assert_eq!(queue.account().now(), at(60_000));
    assert_eq!(queue.limiter().counts().would_refuse, 2);
    queue.limiter().set_mode(Mode::Enforce);
    assert!(acquire().is_ok());
    assert_eq!(queue.account().now(), at(61_000));
    assert_eq!(queue.limiter().counts().enforced, 1, "it has waited");
}

#[test]
fn wait_that_is_not_carried_out_keeps_its_turn() {
    let pace = LeakyBucket::new(rate(1, 1_000), ms(5_000));
    let limiter = Shadow::new(pace, Mode::Shadow);
    let waits = || limiter.try_acquire_at(at(60_000), 1).wait();
    assert_eq!([(); 3].map(|()| waits()), [ms(0); 3]);
    assert_eq!((limiter.counts().would_delay, limiter.counts().would_refuse), (2, 0));
    limiter.set_mode(Mode::Enforce);
    assert_eq!(waits(), ms(3_000));
}

#[test]
fn node_counts_no_refusal_of_a_shadow() {
    let clock = ManualClock::new(at(60_000));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let limiter = Shadow::new(closed().named("orders"), Mode::Shadow);
    limiter.try_enter(&node).unwrap().success();
    let sum = |event| node.now().long().sum(event);
    assert_eq!((sum(MetricEvent::Block), limiter.counts().would_refuse), (0, 1));
    limiter.set_mode(Mode::Enforce);
    let refusal = limiter.try_enter(&node).unwrap_err();
    assert_eq!((refusal.reason, refusal.limiter()), (Reason::MoreThanLimit, Some("orders")));
    assert_eq!(sum(MetricEvent::Block), 1);
}

#[test]
fn keys_with_shadows_of_their_own_share_a_rollout() {
    let rollout = Arc::new(Rollout::new(Mode::Shadow));
    let make = {
        let rollout = Arc::clone(&rollout);
        move || Shadow::with_rollout(Arc::new(ConcurrencyLimiter::new(1)), Arc::clone(&rollout))
    };
    let limiter = Keyed::<u64, _>::new(make, 100).unwrap();
    let held = [7, 7, 8].map(|key| limiter.try_acquire(&key));
    assert!(held.iter().all(Decision::is_admitted));
    assert_eq!(rollout.counts().would_refuse, 1);
    rollout.set_mode(Mode::Enforce);
    assert!([7, 8].iter().all(|key| limiter.try_acquire(key).is_refused()));
}

#[test]
fn keys_of_a_share_are_the_same_for_each_limiter_and_in_a_greater_share() {
    let refused = |percent: u32, key: u64| {
        let rollout = Rollout::new(Mode::Keys(Share::percent(percent).unwrap()));
        Shadow::with_rollout(closed(), &rollout).of_key(&key).try_acquire().is_refused()
    };
    let selected = |percent| (0..2_000).filter(move |&key| refused(percent, key));
    assert_eq!((selected(0).count(), selected(100).count()), (0, 2_000));
    assert!(selected(5).all(|key| refused(5, key) && refused(30, key)));
    let without_key = Shadow::new(closed(), Mode::Keys(Share::ALL));
    assert!(without_key.try_acquire().is_admitted());
    assert_eq!(without_key.counts().would_refuse, 1);
}

/// A limiter that cannot tell, and then refuses: the others give back what they have given.
struct Surprise;

impl Limiter for Surprise {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Refused(Refusal::new(Reason::Custom("surprise"), Retry::Unknown))
    }

    fn peek(&self, _ask: &Ask<'_>) -> Option<Decision> {
        Some(Decision::Admitted(()))
    }
}

/// Without the rule, the permit of the first request would be given back for the second one, which
/// has none.
#[test]
fn request_that_was_let_through_has_nothing_to_give_back() {
    let clock = ManualClock::new(at(60_000));
    let window = FixedWindowLimiter::with_clock(ms(1_000), 1, clock.clone()).unwrap();
    let shadow = Shadow::new(window, Mode::Shadow);
    assert!(shadow.try_acquire().is_admitted());
    let both = AllOf::new((&shadow, Surprise));
    assert!(both.try_acquire().is_refused());
    assert_eq!((shadow.counts().would_refuse, remaining(shadow.limiter())), (1, 0));
    shadow.set_mode(Mode::Enforce);
    assert!(!shadow.refund_at(at(60_000), 1, ms(0)));
    // A request of a later time went ahead as it was decided.
    clock.set(at(61_000));
    assert!(both.try_acquire().is_refused());
    assert_eq!(remaining(shadow.limiter()), 1);
}

#[test]
fn request_for_which_the_limiter_was_off_has_nothing_to_give_back() {
    let clock = ManualClock::new(at(60_000));
    let window = SlidingWindowLimiter::with_clock(ms(60_000), 2, clock.clone()).unwrap();
    let limiter = Shadow::new(window, Mode::Enforce);
    assert!(limiter.try_acquire_many(2).is_admitted());
    limiter.set_mode(Mode::Off);
    assert!(limiter.try_acquire().is_admitted());
    limiter.set_mode(Mode::Enforce);
    assert!(!limiter.refund_at(at(60_000), 1, ms(0)) && limiter.try_acquire().is_refused());
}

/// One wrong time, even the end of time, concerns no refund of another one.
#[test]
fn request_of_a_wrong_time_ends_no_refunds() {
    for mode in [Mode::Off, Mode::Shadow] {
        let clock = ManualClock::new(at(60_000));
        let window = FixedWindowLimiter::with_clock(ms(1_000), 1, clock.clone()).unwrap();
        let limiter = Shadow::new(window, mode);
        assert!(limiter.try_acquire_at(at(60_000), 1).is_admitted());
        assert!(limiter.try_acquire_at(Timestamp::MAX, 1).is_admitted());
        assert!(limiter.try_acquire_at(Timestamp::MAX, 1).is_admitted());
        limiter.set_mode(Mode::Enforce);
        clock.set(at(63_000));
        assert!(limiter.try_acquire_at(at(63_000), 1).is_admitted());
        assert!(!limiter.account().refund(&Ask::at(Timestamp::MAX), ms(0)));
        assert!(limiter.account().refund(&Ask::at(at(63_000)), ms(0)), "{mode:?}");
    }
}

#[test]
fn limit_that_is_not_enforced_is_shown_and_not_announced() {
    let clock = ManualClock::new(at(60_000));
    let window = FixedWindowLimiter::with_clock(ms(1_000), 3, clock).unwrap();
    let limiter = Shadow::new(window.named("orders"), Mode::Shadow);
    let now = at(60_000);
    let announced = || {
        let mut names = Vec::new();
        limiter.account().each_quota(now, &mut |quota| names.push(quota.name));
        assert_eq!(limiter.quota_at(now).map(|quota| quota.name), names.first().copied());
        names
    };
    assert!((0..5).all(|_| limiter.try_acquire_at(now, 1).is_admitted()));
    assert!(announced().is_empty());
    let Some(WatchedState::Shadow { mode, counts, limiter: state, .. }) = limiter.watched() else {
        panic!("it is a shadow")
    };
    assert_eq!((mode, counts.would_refuse), (Mode::Shadow, 2));
    assert!(matches!(*state, WatchedState::Quota(quota) if quota.remaining == 0));
    for mode in [Mode::Off, Mode::Keys(Share::ALL), Mode::Requests(Share::NONE)] {
        limiter.set_mode(mode);
        assert!(announced().is_empty(), "{mode:?}");
    }
    for mode in [Mode::Enforce, Mode::Requests(per_million(1))] {
        limiter.set_mode(mode);
        assert_eq!(announced(), [Some("orders")], "{mode:?}");
    }
}

#[test]
fn gauges_tell_a_shadow_from_a_limit() {
    let limiter = Shadow::new(closed(), Mode::Requests(Share::percent(25).unwrap()));
    assert_eq!((0..8).filter(|_| limiter.try_acquire().is_refused()).count(), 2);
    let mut values = Vec::new();
    let state = limiter.watched().unwrap();
    state.for_each_metric(&mut |gauge, label, value| {
        values.push((gauge, label.map(|(_, text)| text.to_owned()), value));
    });
    let of = |wanted| values.iter().filter(move |(gauge, ..)| *gauge == wanted);
    let modes: Vec<_> = of(WatchedMetric::ShadowMode).filter(|it| it.2 > 0.0).collect();
    assert_eq!((modes.len(), modes[0].1.as_deref()), (1, Some("requests")));
    let value = |wanted| of(wanted).map(|it| it.2).sum::<f64>();
    assert!((value(WatchedMetric::ShadowEnforcedShare) - 0.25).abs() < 1e-9);
    assert_eq!(
        (value(WatchedMetric::ShadowWouldRefuse), of(WatchedMetric::Limit).count()),
        (6.0, 1)
    );
    let rollout = limiter.rollout().watched();
    assert!(matches!(rollout, Some(WatchedState::Shadow { counts, .. }) if counts.enforced == 2));
}

#[test]
fn shadow_of_a_time_far_ahead_bounds_as_its_limiter() {
    let limiter = Shadow::new(closed(), Mode::Shadow);
    assert!(limiter.try_acquire_at(Timestamp::MAX, u64::MAX).is_admitted());
    assert_eq!(limiter.counts().would_refuse, 1);
}
