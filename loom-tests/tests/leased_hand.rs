//! The permits in hand of a leased limiter: each is used by one request, or returned to the node by
//! the close of the hand.
#![cfg(loom)]

use leaparray::Timestamp;
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

// The file of `leaparray-redis`: its other dependencies do not run in loom.
#[expect(dead_code, reason = "the model takes, opens and closes, and does not need the rest")]
#[path = "../../crates/leaparray-redis/src/limiter/hand.rs"]
mod hand;

use hand::{Hand, Taken};

const NOW: Timestamp = Timestamp::from_secs(1);

const END: Timestamp = Timestamp::from_secs(2);

fn hand(permits: u64) -> Arc<Hand> {
    let hand = Hand::new();
    hand.close();
    hand.open(permits, END, Timestamp::MIN);
    Arc::new(hand)
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

/// The permits that were returned are in the next hand, in the same memory.
#[test]
fn returned_permits_are_used_once() {
    explore(None, || {
        let hand = hand(2);
        let request = {
            let hand = Arc::clone(&hand);
            thread::spawn(move || take(&hand, 1))
        };
        let used = hand.close();
        hand.open(2 - used, END, Timestamp::MIN);
        let mine = take(&hand, 1);
        let taken = request.join().expect("it does not panic") + mine;
        assert!(taken <= 2, "{taken}");
        assert_eq!(used + hand.close(), taken);
    });
}

/// The next hand ends earlier, and has the same number of permits: a request must not take them by
/// the end of the hand before.
#[test]
fn permits_of_a_hand_are_not_used_after_its_end() {
    explore(None, || {
        let hand = hand(1);
        let late = Timestamp::from_millis(1_500);
        let request = {
            let hand = Arc::clone(&hand);
            thread::spawn(move || hand.take(late, 1) == Taken::Permits)
        };
        let used = hand.close();
        hand.open(1, NOW, Timestamp::MIN);
        let is_taken = request.join().expect("it does not panic");
        assert_eq!((used, hand.close()), (u64::from(is_taken), 0));
    });
}
