//! The bucket in hand: what a thread records in without looking it up is the bucket of its time, or
//! has been retired; either way each add is counted once.
#![cfg(loom)]

use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};
use leaparray_loom_tests::{LEN, explore, start};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

const PASS: MetricEvent = MetricEvent::Pass;

fn window() -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(1, LEN).expect("valid by construction");
    SlidingWindow::with_clock(config, ManualClock::new(Timestamp::MIN))
}

#[test]
fn an_add_through_the_hand_stays_in_its_bucket_whoever_rotates() {
    explore(Some(3), || {
        let window = window();
        let other = {
            let window = window.clone();
            thread::spawn(move || {
                window.add_at(start(0), PASS, 1);
                // In hand by now, unless the first was late.
                window.add_at(start(0), PASS, 10);
            })
        };
        window.add_at(start(1), PASS, 100);
        other.join().unwrap();
        let account = window.account_at(start(1)).map(|totals| totals.sum(PASS));
        assert_eq!(account.in_window, 100, "{account}");
        assert_eq!(account.recorded(), 111, "{account}");
    });
}

#[test]
fn a_wrap_in_hand_is_not_settled() {
    explore(None, || {
        let window = window();
        window.add_at(start(0), PASS, 1);
        let other = {
            let window = window.clone();
            thread::spawn(move || {
                window.add_at(start(1), PASS, 10);
                window.add_at(start(2), PASS, 100);
            })
        };
        // In the hand of this thread all the while, retired or not.
        window.add_at(start(0), PASS, 1_000);
        other.join().unwrap();
        window.add_at(start(0), PASS, 10_000);
        let account = window.account_at(start(2)).map(|totals| totals.sum(PASS));
        assert_eq!((account.in_window, account.expired, account.late), (100, 11_011, 0));
    });
}

#[test]
fn a_read_finds_what_was_added_through_the_hand() {
    explore(None, || {
        let window = window();
        let returned = Arc::new(AtomicBool::new(false));
        let reader = {
            let (window, returned) = (window.clone(), returned.clone());
            thread::spawn(move || (returned.load(Ordering::Acquire), window.sum_at(start(0), PASS)))
        };
        window.add_at(start(0), PASS, 1);
        window.add_at(start(0), PASS, 10);
        returned.store(true, Ordering::Release);
        let (after, sum) = reader.join().unwrap();
        assert!([0, 1, 11].contains(&sum) && (!after || sum == 11), "after: {after}, sum: {sum}");
    });
}

#[test]
fn a_second_cell_in_hand_while_wraps_are_used_again() {
    explore(Some(2), || {
        let window = window();
        window.add_at(start(0), PASS, 1);
        let other = {
            let window = window.clone();
            thread::spawn(move || {
                window.add_at(start(0), PASS, 10);
                window.add_at(start(0), PASS, 10);
            })
        };
        for number in 1..5 {
            window.add_at(start(number), PASS, 10_u64.pow(number + 1));
        }
        other.join().unwrap();
        let account = window.account_at(start(4)).map(|totals| totals.sum(PASS));
        assert_eq!(account.in_window, 100_000, "{account}");
        assert_eq!(account.recorded(), 111_121, "{account}");
    });
}

#[test]
fn threads_that_end_hand_their_token_on_when_their_hands_are_gone() {
    explore(Some(2), || {
        let window = window();
        let others = [1, 100].map(|count| {
            let window = window.clone();
            thread::spawn(move || {
                window.add_at(start(0), PASS, count);
                window.add_at(start(0), PASS, count);
            })
        });
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(window.sum_at(start(0), PASS), 202);
    });
}
