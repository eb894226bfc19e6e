//! The permits in hand of a leased limiter: each is used by one request, or is back when the hand is closed.
#![cfg(loom)]

use leaparray::Timestamp;
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

// The file of `leaparray-redis`: its other dependencies do not run in loom.
#[allow(dead_code, reason = "the model does not use all of it")]
#[path = "../../crates/leaparray-redis/src/limiter/hand.rs"]
mod hand;

use hand::{Hand, Taken};

const NOW: Timestamp = Timestamp::from_secs(1);

fn hand(permits: u64) -> Arc<Hand> {
    Arc::new(Hand::new(permits, Timestamp::from_secs(2), Timestamp::MIN))
}

/// Takes `count` permits, twice if they were given.
fn take(hand: &Hand, count: u64) -> u64 {
    let takes = || hand.take(NOW, count) == Taken::Permits;
    if takes() { count + if takes() { count } else { 0 } } else { 0 }
}

#[test]
fn permits_are_used_once_while_the_hand_is_closed() {
    explore(None, || {
        let hand = hand(3);
        let threads = [1, 2].map(|count| {
            let hand = Arc::clone(&hand);
            thread::spawn(move || take(&hand, count))
        });
        let used = hand.close();
        let taken: u64 = threads.map(|it| it.join().expect("it does not panic")).iter().sum();
        assert_eq!(taken, used);
        assert!(used <= 3);
        assert_eq!(hand.take(NOW, 1), Taken::Stale);
        assert_eq!(hand.left(), 0);
    });
}

/// The permits that are back are in the next hand.
#[test]
fn permits_that_are_back_are_used_once() {
    explore(None, || {
        let (first, second) = (hand(2), Arc::new(loom::sync::Mutex::new(None)));
        let request = {
            let (first, second) = (Arc::clone(&first), Arc::clone(&second));
            thread::spawn(move || {
                let mut taken = take(&first, 1);
                let next: Option<Arc<Hand>> = second.lock().expect("no panic").clone();
                if let Some(next) = next {
                    taken += take(&next, 1);
                }
                taken
            })
        };
        let used = first.close();
        let next = hand(2 - used);
        *second.lock().expect("no panic") = Some(Arc::clone(&next));
        let mine = take(&next, 1);
        let taken = request.join().expect("it does not panic");
        assert!(taken + mine <= 2, "{taken} and {mine}");
        assert_eq!(used + next.close(), taken + mine);
    });
}
