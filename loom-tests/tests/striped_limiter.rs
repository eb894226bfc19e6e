//! A limiter in an epoch, with its permits in stripes, keeps the promises of a limiter of one word.
#![cfg(loom)]

use std::time::Duration;

use leaparray::flow::{Ask, Decision, LimiterExt, SlidingWindowLimiter};
use leaparray::{ManualClock, Outcome, Timestamp, WindowConfig};
use leaparray_loom_tests::{LEN, Node, explore, node, node_config, start};
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

type Sliding = SlidingWindowLimiter<ManualClock>;

/// Returns a limiter of two buckets. One permit is taken in bucket 1.
fn direct(limit: u64) -> Arc<Sliding> {
    begun(limit, |limiter| limiter)
}

/// Like [`direct`], of a limiter that also counts the passes of a node.
fn with_node_passes(limit: u64) -> Arc<Sliding> {
    begun(limit, Sliding::with_node_passes)
}

fn begun(limit: u64, finish: impl Fn(Sliding) -> Sliding) -> Arc<Sliding> {
    let config = WindowConfig::new(2, LEN * 2).unwrap();
    let limiter = SlidingWindowLimiter::of_buckets_with_clock(
        config,
        limit,
        ManualClock::new(Timestamp::MIN),
    )
    .unwrap();
    // The models give the times, and the clock stands still.
    let limiter = finish(limiter.with_max_lead(Duration::MAX));
    assert_eq!(ask(&limiter, 1, 1), 1);
    Arc::new(limiter)
}

/// Returns a limiter as above, in an epoch: two stripes have the permits that are left.
fn striped(limit: u64) -> Arc<Sliding> {
    let limiter = direct(limit);
    limiter.begin_epoch();
    limiter
}

/// Asks for permits in bucket `number`. Returns the number of admitted permits: all or none.
fn ask(limiter: &Sliding, number: u32, permits: u64) -> u64 {
    if limiter.try_acquire_at(start(number), permits).is_admitted() { permits } else { 0 }
}

fn on_thread<T: 'static>(
    limiter: &Arc<Sliding>,
    act: impl FnOnce(&Sliding) -> T + 'static,
) -> JoinHandle<T> {
    let limiter = limiter.clone();
    thread::spawn(move || act(&limiter))
}

fn available(limiter: &Sliding, number: u32) -> u64 {
    limiter.quota_at(start(number)).unwrap().remaining
}

/// Returns what a response tells, with the permits of other stripes by an earlier reading.
fn recently_available(limiter: &Sliding, number: u32) -> u64 {
    limiter.recent_quota(start(number)).remaining
}

/// Two of four permits fit into a stripe, and three do not. Only one of the requests has enough
/// permits.
#[test]
fn last_permits_of_two_stripes_are_taken_once() {
    explore(Some(3), || {
        let limiter = striped(5);
        let other = on_thread(&limiter, |limiter| ask(limiter, 1, 2));
        let admitted = ask(&limiter, 1, 3) + other.join().unwrap();
        assert!([2, 3].contains(&admitted), "{admitted}");
        assert_eq!(available(&limiter, 1), 4 - admitted);
    });
}

/// Each of two stripes has two permits. The thread that asks for three finds the last ones in the
/// stripe of the other, or ends the epoch.
#[test]
fn no_request_is_refused_while_another_stripe_has_permits() {
    explore(Some(3), || {
        let limiter = striped(5);
        let other = on_thread(&limiter, |limiter| ask(limiter, 1, 1));
        let admitted: u64 = [(); 3].map(|()| ask(&limiter, 1, 1)).iter().sum();
        assert_eq!(admitted + other.join().unwrap(), 4);
        assert_eq!(ask(&limiter, 1, 1), 0);
    });
}

/// Each stripe has two permits. After one thread has taken one, three are left, and no stripe has
/// them.
#[test]
fn no_request_is_refused_while_two_stripes_have_its_permits() {
    explore(Some(3), || {
        let limiter = striped(6);
        let other = on_thread(&limiter, |limiter| ask(limiter, 1, 2));
        assert_eq!(ask(&limiter, 1, 3) + other.join().unwrap(), 5);
        assert_eq!(available(&limiter, 1), 0);
    });
}

/// A thread takes a permit from a stripe of bucket 1 while another opens bucket 2. The permit
/// counts in one of the two.
#[test]
fn permits_of_stripes_are_noted_when_their_bucket_is_closed() {
    explore(Some(3), || {
        let limiter = striped(5);
        let other = on_thread(&limiter, |limiter| ask(limiter, 1, 1));
        assert_eq!(ask(&limiter, 2, 2) + other.join().unwrap(), 3);
        assert_eq!(available(&limiter, 2), 1);
        let in_bucket_2 = 5 - available(&limiter, 3);
        assert!([2, 3].contains(&in_bucket_2), "{in_bucket_2}");
    });
}

/// Two threads open bucket 2 at once, and one of them takes the last permits. In bucket 3, those of
/// bucket 1 are free.
#[test]
fn epoch_that_two_threads_end_is_counted_once() {
    explore(Some(3), || {
        let limiter = striped(5);
        assert_eq!(ask(&limiter, 1, 2), 2);
        let other = on_thread(&limiter, |limiter| ask(limiter, 2, 2));
        assert_eq!(ask(&limiter, 2, 2) + other.join().unwrap(), 2);
        assert_eq!([2, 3].map(|number| available(&limiter, number)), [0, 3]);
    });
}

/// One thread shares the permits out while the other ends the epoch.
#[test]
fn permits_that_are_shared_out_are_taken_once() {
    explore(Some(3), || {
        let limiter = direct(7);
        let other = on_thread(&limiter, |limiter| {
            limiter.begin_epoch();
            ask(limiter, 1, 1)
        });
        let admitted = ask(&limiter, 1, 1) + ask(&limiter, 1, 4) + other.join().unwrap();
        assert_eq!(admitted, 6);
        assert_eq!(available(&limiter, 1), 0);
    });
}

/// Two threads share the permits out, at once or one after the other, and take permits.
#[test]
fn two_threads_begin_one_epoch_at_a_time() {
    explore(Some(3), || {
        let limiter = direct(9);
        let share_and_ask = |limiter: &Sliding| {
            limiter.begin_epoch();
            ask(limiter, 1, 3)
        };
        let other = on_thread(&limiter, share_and_ask);
        assert_eq!(share_and_ask(&limiter) + other.join().unwrap(), 6);
        assert_eq!(available(&limiter, 1), 2);
        assert_eq!(ask(&limiter, 1, 2), 2);
    });
}

/// A thread takes a permit of the first epoch while another ends it and begins a second one.
#[test]
fn permit_of_an_epoch_that_ends_is_counted_once() {
    explore(Some(3), || {
        let limiter = striped(9);
        let other = on_thread(&limiter, |limiter| ask(limiter, 1, 1));
        // More than a stripe has.
        assert_eq!(ask(&limiter, 1, 5), 5);
        limiter.begin_epoch();
        assert_eq!(other.join().unwrap(), 1);
        assert_eq!(available(&limiter, 1), 2);
        assert_eq!(ask(&limiter, 1, 3) + ask(&limiter, 1, 2), 2);
    });
}

/// The stripe of the main thread has permits of the former limit.
#[test]
fn request_after_a_change_of_the_limit_finds_it() {
    explore(Some(3), || {
        let limiter = striped(9);
        let other = on_thread(&limiter, |limiter| ask(limiter, 1, 1));
        limiter.reconfigure(2).unwrap();
        assert_eq!(ask(&limiter, 1, 2), 0);
        other.join().unwrap();
    });
}

/// The limit is lowered while another thread shares out the permits of the former limit.
#[test]
fn request_after_a_change_of_the_limit_finds_it_in_an_epoch_that_began_since() {
    explore(Some(3), || {
        let limiter = direct(9);
        let other = on_thread(&limiter, Sliding::begin_epoch);
        limiter.reconfigure(2).unwrap();
        assert_eq!(ask(&limiter, 1, 2), 0);
        other.join().unwrap();
        assert_eq!([2, 1].map(|permits| ask(&limiter, 1, permits)), [0, 1]);
    });
}

#[test]
fn permit_that_is_given_back_beside_stripes_is_free_once() {
    explore(Some(3), || {
        let limiter = striped(5);
        let other = on_thread(&limiter, |limiter| ask(limiter, 1, 2));
        assert!(limiter.refund_at(start(1), 1, Duration::ZERO));
        assert_eq!(other.join().unwrap(), 2);
        assert_eq!(available(&limiter, 1), 3);
        assert_eq!(ask(&limiter, 1, 4) + ask(&limiter, 1, 3), 3);
    });
}

/// One thread reads while the other takes a permit from a stripe, ends the epoch, and opens
/// bucket 2.
#[test]
fn reading_of_stripes_lies_between_before_and_after() {
    explore(Some(3), || {
        let limiter = striped(9);
        let reader = on_thread(&limiter, |limiter| {
            assert_eq!(limiter.peek_at(start(1), 2), Some(Decision::Admitted(())));
            available(limiter, 1)
        });
        assert_eq!(ask(&limiter, 1, 1) + ask(&limiter, 1, 5), 6);
        let found = reader.join().unwrap();
        assert!([8, 7, 2].contains(&found), "{found}");
    });
}

/// One thread reads while the other ends the epoch, and begins one with other permits. The reading
/// is of one epoch.
#[test]
fn reading_beside_two_epochs_is_of_one_of_them() {
    explore(Some(3), || {
        let limiter = striped(15);
        let reader = on_thread(&limiter, |limiter| available(limiter, 1));
        assert_eq!(ask(&limiter, 1, 9), 9);
        limiter.begin_epoch();
        let found = reader.join().unwrap();
        assert!([14, 5].contains(&found), "{found}");
    });
}

/// Returns a limiter in an epoch with four stripes of three permits. Five more are left in the
/// word.
fn wide() -> Arc<Sliding> {
    striped(18)
}

/// As above, with two stripes and then with four.
#[test]
fn reading_beside_an_epoch_with_more_stripes_is_of_one_of_them() {
    explore(Some(3), || {
        let limiter = direct(18);
        assert_eq!(ask(&limiter, 1, 9), 9);
        limiter.begin_epoch();
        let reader = on_thread(&limiter, |limiter| available(limiter, 1));
        // The permits of bucket 1 have left the window.
        assert_eq!(ask(&limiter, 3, 1), 1);
        limiter.begin_epoch();
        let found = reader.join().unwrap();
        assert!([8, 17, 18].contains(&found), "{found}");
    });
}

/// As above, with four stripes and then with two.
#[test]
fn reading_beside_an_epoch_with_fewer_stripes_is_of_one_of_them() {
    explore(Some(3), || {
        let limiter = wide();
        let reader = on_thread(&limiter, |limiter| available(limiter, 1));
        assert_eq!(ask(&limiter, 1, 9), 9);
        limiter.begin_epoch();
        let found = reader.join().unwrap();
        assert!([17, 8].contains(&found), "{found}");
    });
}

/// A thread ends the epoch with four stripes, and may be late: another thread has ended it, and has
/// begun one with two.
#[test]
fn late_end_of_an_epoch_with_more_stripes_does_not_end_the_next() {
    explore(Some(3), || {
        let limiter = wide();
        // More than a stripe has.
        let late = on_thread(&limiter, |limiter| ask(limiter, 1, 4));
        assert_eq!(ask(&limiter, 1, 9), 9);
        limiter.begin_epoch();
        assert_eq!(ask(&limiter, 1, 2) + late.join().unwrap(), 6);
        assert_eq!(available(&limiter, 1), 2);
        assert_eq!(ask(&limiter, 1, 3) + ask(&limiter, 1, 2), 2);
    });
}

/// A thread takes a permit of the third or the fourth stripe while another ends the epoch, and
/// begins one with two stripes.
#[test]
fn stripe_outside_of_the_next_epoch_gives_out_no_permits() {
    explore(Some(3), || {
        let limiter = wide();
        // The permits of two stripes: those of this thread and of the other.
        assert_eq!(ask(&limiter, 1, 3) + ask(&limiter, 1, 3), 6);
        let other = on_thread(&limiter, |limiter| ask(limiter, 1, 1));
        // More than a stripe has.
        assert_eq!(ask(&limiter, 1, 4), 4);
        limiter.begin_epoch();
        assert_eq!(ask(&limiter, 1, 1) + other.join().unwrap(), 2);
        assert_eq!(available(&limiter, 1), 5);
        assert_eq!(ask(&limiter, 1, 3) + ask(&limiter, 1, 2), 5);
    });
}

/// A thread finds the first epoch, and stalls before it reads a stripe. Another thread ends the
/// epoch and takes permits from the word, while a third one prepares an epoch that it then cannot
/// begin. The stalled thread takes no permit from its stripes.
#[test]
fn stripe_in_preparation_gives_out_no_permits() {
    explore(Some(3), || {
        let limiter = striped(9);
        let stalled = on_thread(&limiter, |limiter| ask(limiter, 1, 1));
        let prepares = on_thread(&limiter, Sliding::begin_epoch);
        let mut admitted = ask(&limiter, 1, 5) + ask(&limiter, 1, 1);
        prepares.join().unwrap();
        admitted += stalled.join().unwrap();
        assert_eq!(admitted, 7);
        assert_eq!(available(&limiter, 1), 1);
    });
}

/// As `reading_of_stripes_lies_between_before_and_after`. The second reading has the permits of the
/// other stripe by the first one, or by its own.
#[test]
fn recent_readings_of_stripes_lie_between_before_and_after() {
    explore(Some(3), || {
        let limiter = striped(9);
        let reader =
            on_thread(&limiter, |limiter| [(); 2].map(|()| recently_available(limiter, 1)));
        assert_eq!(ask(&limiter, 1, 1) + ask(&limiter, 1, 5), 6);
        let found = reader.join().unwrap();
        assert!(found.iter().all(|it| [8, 7, 2].contains(it)), "{found:?}");
        assert!(found[1] <= found[0], "{found:?}");
    });
}

/// As `reading_beside_two_epochs_is_of_one_of_them`.
#[test]
fn recent_reading_beside_two_epochs_is_of_one_of_them() {
    explore(Some(3), || {
        let limiter = striped(15);
        let reader = on_thread(&limiter, |limiter| recently_available(limiter, 1));
        assert_eq!(ask(&limiter, 1, 9), 9);
        limiter.begin_epoch();
        let found = reader.join().unwrap();
        assert!([14, 5].contains(&found), "{found}");
    });
}

/// As `reading_beside_an_epoch_with_more_stripes_is_of_one_of_them`.
#[test]
fn recent_reading_beside_an_epoch_with_more_stripes_is_of_one_of_them() {
    explore(Some(3), || {
        let limiter = direct(18);
        assert_eq!(ask(&limiter, 1, 9), 9);
        limiter.begin_epoch();
        let reader = on_thread(&limiter, |limiter| recently_available(limiter, 1));
        // The permits of bucket 1 have left the window.
        assert_eq!(ask(&limiter, 3, 1), 1);
        limiter.begin_epoch();
        let found = reader.join().unwrap();
        assert!([8, 17, 18].contains(&found), "{found}");
    });
}

/// As `reading_beside_an_epoch_with_fewer_stripes_is_of_one_of_them`.
#[test]
fn recent_reading_beside_an_epoch_with_fewer_stripes_is_of_one_of_them() {
    explore(Some(3), || {
        let limiter = wide();
        let reader = on_thread(&limiter, |limiter| recently_available(limiter, 1));
        assert_eq!(ask(&limiter, 1, 9), 9);
        limiter.begin_epoch();
        let found = reader.join().unwrap();
        assert!([17, 8].contains(&found), "{found}");
    });
}

/// A thread reads the stripes of the first epoch, which another one ends. Its reading is not used
/// in the second epoch, in which no permit is taken from a stripe.
#[test]
fn recent_reading_is_not_used_in_another_epoch() {
    explore(Some(3), || {
        let limiter = striped(15);
        let other = on_thread(&limiter, |limiter| {
            assert_eq!(ask(limiter, 1, 9), 9);
            limiter.begin_epoch();
        });
        let reader = on_thread(&limiter, move |limiter| {
            let found = recently_available(limiter, 1);
            assert!([14, 5].contains(&found), "{found}");
            other.join().unwrap();
            assert_eq!(recently_available(limiter, 1), 5);
        });
        reader.join().unwrap();
    });
}

/// The second epoch is prepared twice if the other thread takes permits from the word meanwhile: of
/// 14 permits, each stripe gets 6, and of 6 permits 3. That thread has found the first epoch, and
/// reads the stripes. Its reading is not used in the second epoch, of which no stripe has permits
/// for its request.
#[test]
fn recent_reading_of_stripes_that_are_still_prepared_is_not_used_again() {
    explore(Some(2), || {
        let limiter = striped(32);
        let other = on_thread(&limiter, |limiter| {
            assert_eq!(ask(limiter, 1, 17), 17);
            limiter.begin_epoch();
        });
        let reader = on_thread(&limiter, move |limiter| {
            let found = recently_available(limiter, 1);
            assert!([31, 14].contains(&found), "{found}");
            assert_eq!(ask(limiter, 1, 8), 8);
            other.join().unwrap();
            assert_eq!(recently_available(limiter, 1), 6);
        });
        reader.join().unwrap();
    });
}

/// Two threads enter a node. Two of nine permits are taken, and one request has entered the node
/// directly, so six are left. If the threads compete, they take permits from stripes.
#[test]
fn entries_of_an_epoch_leave_room_for_direct_passes() {
    explore(Some(2), || {
        let (node, limiter) = (node(node_config(2, 2)), with_node_passes(9));
        for _ in 0..2 {
            node.enter_at(start(1)).end_at(start(1), Outcome::Success);
        }
        let enter = |limiter: &Sliding, node: &Node, permits| {
            let entry = limiter.enter_at(node, Ask::at(start(1)).many(permits)).into_result();
            entry.map(|it| it.into_parts().0.end_at(start(1), Outcome::Success)).is_ok()
        };
        // Counts the direct passes, for this bucket.
        assert!(enter(&limiter, &node, 1));
        let of_other = node.clone();
        let other = on_thread(&limiter, move |limiter| enter(limiter, &of_other, 1));
        assert!(enter(&limiter, &node, 1) && enter(&limiter, &node, 1));
        assert!(other.join().unwrap());
        assert!(!enter(&limiter, &node, 4));
        assert!(enter(&limiter, &node, 3));
        assert!(!enter(&limiter, &node, 1));
        assert_eq!(available(&limiter, 1), 0, "the ninth is the direct pass");
    });
}
