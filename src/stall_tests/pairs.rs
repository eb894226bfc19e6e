//! Threads that act on a shared limiter, and pairs of them that are stopped.

use std::sync::Arc;

use super::threads::{Led, watched};

/// An operation on a shared limiter, and its number of permits.
pub(super) type Act<L> = fn(&L) -> u64;

/// Starts a thread that acts on the limiter, and stops it before the first point.
pub(super) fn led<L: Send + Sync + 'static>(
    limiter: &Arc<L>,
    act: impl FnOnce(&L) -> u64 + Send + 'static,
) -> Led<u64> {
    let limiter = limiter.clone();
    Led::start(move |leash| {
        leash.put_on();
        act(&limiter)
    })
}

/// Returns the permits of an operation on a thread that is not stopped.
pub(super) fn acted<L: Send + Sync + 'static>(limiter: &Arc<L>, act: Act<L>) -> u64 {
    let limiter = limiter.clone();
    watched("a thread that takes permits", move || act(&limiter)).result()
}

/// Stops one thread after each number of points, and a second one after each number of its own.
/// Calls `check` each time, with a limiter of `make`, the two threads, of which the first one was
/// stopped last, and a text for messages.
pub(super) fn stop_each_two<L: Send + Sync + 'static>(
    make: impl Fn() -> Arc<L>,
    [first, second]: [Act<L>; 2],
    mut check: impl FnMut(&Arc<L>, [Led<u64>; 2], &str),
) {
    for passed in 0.. {
        for passed_then in 0.. {
            let limiter = make();
            let mut one = led(&limiter, first);
            if !one.lead(passed) {
                assert!(passed > 0, "no thread was stopped");
                return;
            }
            let mut two = led(&limiter, second);
            let are_stopped = two.lead(passed_then);
            let when = format!("stopped after {passed} and {passed_then} points");
            check(&limiter, [two, one], &when);
            if !are_stopped {
                break;
            }
        }
    }
}
