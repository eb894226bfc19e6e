//! The classes of a limit in flight: a lower class never takes the reserve of a higher one, and a
//! request that finds room in its class is admitted.
#![cfg(loom)]

use leaparray::flow::priority::{Classes, OfClass};
use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
use leaparray::{Permit, shadow_all_words};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::thread;

type Limit = std::sync::Arc<ConcurrencyLimiter>;

fn classes(limit: u64, shares: &[f64]) -> Arc<Classes<Limit>> {
    shadow_all_words();
    let limit = Limit::new(ConcurrencyLimiter::new(limit));
    Arc::new(Classes::new(limit, shares).unwrap())
}

fn take(classes: &Arc<Classes<Limit>>, class: usize) -> Option<impl Permit + use<>> {
    OfClass::new(classes.clone(), class).try_acquire().at_once().ok()
}

#[test]
fn low_requests_that_race_leave_the_reserve() {
    explore(Some(3), || {
        let classes = classes(3, &[1.0, 0.7]);
        let others = [(); 2].map(|()| {
            let classes = classes.clone();
            thread::spawn(move || take(&classes, 1))
        });
        let own = take(&classes, 1);
        let others = others.map(|other| other.join().unwrap());
        let admitted = others.iter().chain([&own]).filter(|it| it.is_some()).count();
        assert_eq!(admitted, 2);
        let reserve = take(&classes, 0);
        assert!(reserve.is_some());
        assert_eq!((classes.in_use(), classes.limiter().in_use()), (3, 3));
    });
}

/// A low request takes its share, and a high one all the rest, beside each other.
#[test]
fn high_request_is_not_refused_for_the_sake_of_a_low_one() {
    explore(Some(3), || {
        let classes = classes(2, &[1.0, 0.5]);
        let low = classes.clone();
        let low = thread::spawn(move || take(&low, 1));
        let first = take(&classes, 0);
        assert!(first.is_some());
        let low = low.join().unwrap();
        assert!(low.is_some() || take(&classes, 0).is_some());
    });
}

/// A thread gives a permit back. Another one that finds it in the count of the classes finds it in
/// the limiter as well.
#[test]
fn request_that_finds_room_in_its_class_finds_it_in_the_limiter() {
    explore(Some(3), || {
        let classes = classes(1, &[1.0]);
        let held = take(&classes, 0);
        let other = thread::spawn(move || drop(held));
        let is_free = classes.in_use() == 0;
        let taken = take(&classes, 0);
        assert!(taken.is_some() || !is_free, "room in the class, and none in the limiter");
        drop(taken);
        other.join().unwrap();
        assert_eq!((classes.in_use(), classes.limiter().in_use()), (0, 0));
    });
}

/// A request for more than the limit takes nothing, not even for a moment.
#[test]
fn request_for_too_much_refuses_no_other() {
    explore(Some(3), || {
        let classes = classes(2, &[1.0, 0.5]);
        let other = classes.clone();
        let other =
            thread::spawn(move || OfClass::new(other, 1).try_acquire_many(5).at_once().is_err());
        assert!(take(&classes, 0).is_some());
        assert!(other.join().unwrap());
        assert_eq!((classes.in_use(), classes.limiter().in_use()), (0, 0));
    });
}
