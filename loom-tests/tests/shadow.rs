//! Limiters in the shadow: a change of the mode takes effect between whole decisions, the share of
//! requests is exact, and no request gives back permits that it has not got.
#![cfg(loom)]

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::shadow::{Mode, Shadow, Share};
use leaparray::flow::{LimiterExt, Rate, TokenBucket};
use leaparray::{ManualClock, Timestamp};
use leaparray_loom_tests::explore;
use loom::thread;

const NOW: Timestamp = Timestamp::from_nanos(1_000);

type Limiter = Shadow<TokenBucket<ManualClock>>;

/// A bucket of `tokens` tokens. The model ends before one is added.
fn shadow(tokens: u64, mode: Mode) -> Arc<Limiter> {
    let rate = Rate::new(1, Duration::from_secs(3_600)).unwrap();
    let bucket = TokenBucket::with_clock(rate, tokens, ManualClock::new(NOW));
    Arc::new(Shadow::new(bucket.with_max_lead(Duration::MAX), mode))
}

fn is_refused(limiter: &Limiter) -> bool {
    limiter.try_acquire_at(NOW, 1).is_refused()
}

#[test]
fn mode_changes_between_whole_decisions() {
    explore(None, || {
        let limiter = shadow(1, Mode::Shadow);
        let asking = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || [(); 2].map(|()| is_refused(&limiter)))
        };
        limiter.set_mode(Mode::Enforce);
        let last = is_refused(&limiter);
        let refused = asking.join().unwrap().iter().filter(|&&it| it).count() + usize::from(last);
        let counts = limiter.counts();
        // One of three requests has got the token.
        assert_eq!(counts.enforced, refused as u64);
        assert_eq!(counts.enforced + counts.would_refuse, 2);
        assert!(is_refused(&limiter), "the change was before this decision");
    });
}

#[test]
fn share_of_requests_is_exact() {
    explore(None, || {
        let limiter = shadow(0, Mode::Requests(Share::percent(50).unwrap()));
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || is_refused(&limiter))
        };
        let own = is_refused(&limiter);
        assert_ne!(own, other.join().unwrap());
    });
}

#[test]
fn request_that_was_let_through_gives_nothing_back() {
    explore(None, || {
        let limiter = shadow(1, Mode::Shadow);
        assert!(!is_refused(&limiter));
        let withdrawn = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || {
                // Let through, or refused: it has no token in either case.
                !is_refused(&limiter) && limiter.refund_at(NOW, 1, Duration::ZERO)
            })
        };
        limiter.set_mode(Mode::Enforce);
        assert!(is_refused(&limiter), "the token is taken");
        assert!(!withdrawn.join().unwrap());
    });
}
