//! A breaker: of the threads that race for a probe, one gets it; each request that ends is counted
//! once; and the last word is made from the counts of all requests that have ended.
#![cfg(loom)]

use leaparray::MetricEvent::{Block, Exception, Success};
use leaparray::flow::breaker::{AdaptiveBreakerConfig, RandomSource};
use leaparray::flow::{AdaptiveBreaker, Ask, Decision, FeedbackPermit};
use leaparray::{ManualClock, Outcome, Timestamp, WindowConfig, show_all_words};
use leaparray_loom_tests::{LEN, explore, start};
use loom::sync::Arc;
use loom::thread;

/// A source that returns the same number each time.
struct Draw(u32);

impl RandomSource for Draw {
    fn next_u32(&self) -> u32 {
        self.0
    }
}

/// The lowest number, with which every request is dropped that can be dropped.
const STRICT: Draw = Draw(0);

/// A number with which a request is dropped if the probability is above 5/16.
const LENIENT: Draw = Draw(5 << 28);

type Breaker = Arc<AdaptiveBreaker<ManualClock, Draw>>;
type Kept = FeedbackPermit<Breaker>;

/// A breaker whose window has one bucket. The probe interval is a second, which is two buckets.
fn breaker(min_requests: u64, random: Draw) -> Breaker {
    let window = WindowConfig::new(1, LEN).expect("valid by construction");
    let config = AdaptiveBreakerConfig::default().k(1.0).expect("at least 1");
    let config = config.window(window).min_requests(min_requests);
    Arc::new(AdaptiveBreaker::with_source(config, ManualClock::new(Timestamp::MIN), random))
}

fn ask(breaker: &Breaker, number: u32) -> Option<Kept> {
    match FeedbackPermit::ask(breaker.clone(), &Ask::at(start(number))) {
        Decision::Admitted(permit) => Some(permit),
        _ => None,
    }
}

/// The permit of a request that is admitted because no request has ended yet.
fn permit(breaker: &Breaker, number: u32) -> Kept {
    ask(breaker, number).expect("no request has ended")
}

fn counts(breaker: &Breaker, number: u32) -> [u64; 3] {
    [Success, Exception, Block].map(|event| breaker.window().at(start(number)).sum(event))
}

// A permit is kept until both threads have ended: its end would add executions that say nothing
// about the race.
#[test]
fn one_thread_of_a_race_gets_the_probe() {
    explore(None, || {
        let breaker = breaker(0, STRICT);
        permit(&breaker, 3).end_at(start(3), Outcome::Exception);
        let other = {
            let breaker = breaker.clone();
            thread::spawn(move || ask(&breaker, 3))
        };
        let mine = ask(&breaker, 3);
        let other = other.join().unwrap();
        assert!(other.is_some() ^ mine.is_some());
        assert_eq!(counts(&breaker, 3), [0, 1, 1]);
    });
}

/// One thread drops a permit and accepts with another, while the main thread accepts with a third
/// one. Each request is counted once, and a dropped permit counts as a rejection.
#[test]
fn permit_counts_once_on_whichever_thread() {
    explore(Some(2), || {
        let breaker = breaker(9, STRICT);
        let [dropped, kept, mine] = [(); 3].map(|()| permit(&breaker, 0));
        let other = thread::spawn(move || {
            drop(dropped);
            kept.end_at(start(0), Outcome::Success);
        });
        mine.end_at(start(0), Outcome::Success);
        other.join().unwrap();
        assert_eq!(counts(&breaker, 0), [2, 1, 0]);
    });
}

/// Two threads reject a request each. Their cells are bound before, so they synchronize by nothing
/// but the word.
fn two_rejections(breaker: &Breaker) {
    let [accepted, rejected] = [(); 2].map(|()| permit(breaker, 1));
    let theirs = [(); 2].map(|()| permit(breaker, 1));
    accepted.end_at(start(1), Outcome::Success);
    let other = thread::spawn(move || {
        let [accepted, rejected] = theirs;
        accepted.end_at(start(1), Outcome::Success);
        rejected.end_at(start(1), Outcome::Exception);
    });
    rejected.end_at(start(1), Outcome::Exception);
    other.join().unwrap();
}

/// Two threads reject a request each. After one rejection alone, the word would not change, and no
/// request would be dropped. The word reflects both.
#[test]
fn two_rejections_at_once_are_both_known() {
    show_all_words();
    explore(Some(3), || {
        let breaker = breaker(1, STRICT);
        two_rejections(&breaker);
        // In the same slice, so the word decides.
        assert!(ask(&breaker, 1).is_none());
        assert_eq!(counts(&breaker, 1), [2, 2, 1]);
    });
}

/// Two threads reject a request each. The probability is 1/4 after the first rejection, and 2/5
/// after both. The word reflects both, so a request is dropped.
#[test]
fn later_of_two_turns_adds_up_both() {
    show_all_words();
    // Two preemptions take two seconds, and three take half a minute. Three catch no more of the
    // mistakes in the word.
    explore(Some(2), || {
        let breaker = breaker(0, LENIENT);
        two_rejections(&breaker);
        assert!(ask(&breaker, 1).is_none());
        assert_eq!(counts(&breaker, 1), [2, 2, 1]);
    });
}

/// One thread is the first that asks in a slice, and so adds up, while another rejects a request.
/// The word that reflects the rejection is not replaced by an earlier sum.
#[test]
fn rejection_beside_a_thread_that_follows_the_time() {
    show_all_words();
    explore(Some(2), || {
        let breaker = breaker(0, STRICT);
        // Another slice of the same bucket: a cell that moves to another bucket adds executions
        // that say nothing about the word.
        let later = start(1).saturating_add(LEN / 2);
        let ask =
            move |breaker: Breaker| FeedbackPermit::ask(breaker, &Ask::at(later)).at_once().ok();
        let rejected = permit(&breaker, 1);
        let other = {
            let breaker = breaker.clone();
            thread::spawn(move || ask(breaker))
        };
        rejected.end_at(later, Outcome::Exception);
        let asked = other.join().unwrap();
        assert!(ask(breaker.clone()).is_none());
        assert_eq!(counts(&breaker, 1), [0, 1, 2 - u64::from(asked.is_some())]);
    });
}

/// One thread changes the configuration while another rejects a request. Before the change, no
/// request would be dropped. Whichever thread is later, the word in force follows from the
/// rejection and from the new configuration, also if that has another window.
fn change_beside_a_rejection(
    preemptions: usize,
    change: impl Fn(AdaptiveBreakerConfig) -> AdaptiveBreakerConfig + Send + Sync + 'static,
) {
    show_all_words();
    explore(Some(preemptions), move || {
        let breaker = breaker(9, STRICT);
        breaker.clock().set(start(1));
        let rejected = permit(&breaker, 1);
        let other = thread::spawn(move || rejected.end_at(start(1), Outcome::Exception));
        breaker.reconfigure(change(breaker.config().min_requests(0)));
        // Adds up, unless the change has.
        let _asked = ask(&breaker, 1);
        other.join().unwrap();
        // In the same slice, so the word decides.
        assert!(ask(&breaker, 1).is_none());
    });
}

#[test]
fn change_of_the_settings_beside_a_rejection() {
    change_beside_a_rejection(2, |config| config);
}

#[test]
fn change_of_the_window_beside_a_rejection() {
    let window = WindowConfig::new(2, LEN).expect("valid by construction");
    // Two preemptions take half a minute, and three take two minutes.
    change_beside_a_rejection(1, move |config| config.window(window));
}

/// One thread cancels a probe beside a thread that asks. The next request that would be dropped is
/// a probe, and no other one.
#[test]
fn cancelled_probe_is_passed_on_once() {
    explore(None, || {
        let breaker = breaker(0, STRICT);
        permit(&breaker, 3).end_at(start(3), Outcome::Exception);
        let probe = ask(&breaker, 3).expect("a probe is due");
        let other = {
            let breaker = breaker.clone();
            thread::spawn(move || ask(&breaker, 3))
        };
        probe.end_at(start(3), Outcome::Cancelled);
        let theirs = other.join().unwrap();
        let [mine, last] = [(); 2].map(|()| ask(&breaker, 3));
        assert!(theirs.is_some() ^ mine.is_some(), "one request is the probe now");
        assert!(last.is_none(), "one cancelled probe makes one probe");
    });
}

/// One thread cancels a probe, while the next probe is due and another thread takes it. The later
/// time stays.
#[test]
fn cancelled_probe_sets_back_no_later_one() {
    explore(Some(2), || {
        let breaker = breaker(0, STRICT);
        let later = permit(&breaker, 3);
        permit(&breaker, 3).end_at(start(3), Outcome::Exception);
        let probe = ask(&breaker, 3).expect("a probe is due");
        later.end_at(start(5), Outcome::Exception);
        let other = {
            let breaker = breaker.clone();
            thread::spawn(move || ask(&breaker, 5))
        };
        probe.end_at(start(5), Outcome::Cancelled);
        assert!(other.join().unwrap().is_some(), "a probe is due in any case");
        assert!(ask(&breaker, 5).is_none(), "there is one probe at that time");
    });
}
