//! Readings of a window with the numbers written out, in addition to the comparison with the
//! oracle.

use std::time::Duration;

use leaparray::{Clock, ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};

const PASS: MetricEvent = MetricEvent::Pass;

fn t(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A window of `samples` buckets of 100 ms, made at 10 s.
fn window(samples: usize) -> (SlidingWindow<ManualClock>, ManualClock) {
    let clock = ManualClock::new(t(10_000));
    let config = WindowConfig::new(samples, millis(100) * u32::try_from(samples).unwrap()).unwrap();
    (SlidingWindow::with_clock(config, clock.clone()), clock)
}

#[test]
fn previous_rate_is_that_of_the_last_complete_bucket() {
    let (window, clock) = window(4);
    window.add(PASS, 5);
    assert_eq!(window.now().previous_qps(PASS), Some(0.0));
    clock.advance(millis(100));
    window.add(PASS, 7);
    assert_eq!(window.now().previous_qps(PASS), Some(50.0));
    clock.advance(millis(100));
    let view = window.view(WindowConfig::new(1, millis(200)).unwrap()).unwrap();
    // The two buckets before the last two. The window existed in the second of them only.
    assert_eq!(view.now().previous_qps(PASS), Some(50.0));
    clock.advance(millis(100));
    assert_eq!(view.now().previous_qps(PASS), Some(60.0));
    let whole = window.view(WindowConfig::new(1, millis(400)).unwrap()).unwrap();
    assert_eq!(whole.now().previous_qps(PASS), None, "the array is too short to keep it");
    let (shortest, _) = self::window(2);
    assert!(shortest.now().previous_qps(PASS).is_some(), "just long enough");
    assert_eq!(window.at(Timestamp::MIN).previous_qps(PASS), Some(0.0));
}

#[test]
fn response_times_are_optional_exact_and_unclamped() {
    let (window, clock) = window(2);
    assert_eq!(
        (
            window.now().totals().avg_rt(),
            window.now().totals().min_rt(),
            window.now().totals().max_rt()
        ),
        (None, None, None)
    );
    window.record_rt_at(window.clock().now(), Duration::ZERO);
    assert_eq!(window.now().totals().min_rt(), Some(Duration::ZERO), "a zero is a response time");
    assert_eq!(window.now().totals().max_rt(), Some(Duration::ZERO));
    window.record_success(Duration::from_nanos(3));
    clock.advance(millis(100));
    window.record_exception(millis(10_000_000));
    assert_eq!(window.now().totals().max_rt(), Some(millis(10_000_000)), "hours are not clamped");
    let nanos = 10_000_000_000_003;
    assert_eq!(window.now().totals().avg_rt(), Some(Duration::from_nanos(nanos / 3)));
    assert_eq!(window.now().sum(MetricEvent::Rt), nanos);
    assert_eq!(
        (window.now().sum(MetricEvent::Success), window.now().sum(MetricEvent::Exception)),
        (1, 1)
    );
    clock.advance(millis(100));
    assert_eq!(
        window.now().totals().min_rt(),
        Some(millis(10_000_000)),
        "the extremes expire with the bucket"
    );
    clock.advance(millis(100));
    assert_eq!(
        (
            window.now().totals().avg_rt(),
            window.now().totals().min_rt(),
            window.now().totals().max_rt()
        ),
        (None, None, None)
    );
}

#[test]
fn rt_that_is_added_as_an_event_counts_as_one() {
    let (window, _) = window(2);
    window.add(MetricEvent::Rt, 4);
    window.add(MetricEvent::Rt, 8);
    assert_eq!(window.now().totals().avg_rt(), Some(Duration::from_nanos(6)));
    assert_eq!(window.now().totals().min_rt(), Some(Duration::from_nanos(4)));
}

#[test]
fn concurrency_is_the_highest_of_the_window() {
    let (window, clock) = window(2);
    assert_eq!(window.now().totals().max_concurrency(), None);
    for concurrency in [1, 3, 2] {
        window.record_concurrency_at(window.clock().now(), concurrency);
    }
    clock.advance(millis(100));
    window.record_concurrency_at(window.clock().now(), 2);
    assert_eq!(window.now().totals().max_concurrency(), Some(3));
    clock.advance(millis(100));
    assert_eq!(window.now().totals().max_concurrency(), Some(2));
}

#[test]
fn buckets_are_listed_from_the_oldest_and_untouched_ones_are_empty() {
    let (window, clock) = window(4);
    window.add(PASS, 1);
    clock.advance(millis(200));
    window.add(PASS, 2);
    let list = |window: &SlidingWindow<_>| -> Vec<_> {
        window.now().buckets().map(|it| (it.start.as_millis(), it.totals.sum(PASS))).collect()
    };
    assert_eq!(list(&window), [(9_900, 0), (10_000, 1), (10_100, 0), (10_200, 2)]);
    assert_eq!(window.now().max_of_single_bucket(PASS), 2);
    let view = window.view(WindowConfig::new(2, millis(400)).unwrap()).unwrap();
    assert_eq!(list(&view), [(9_900, 1), (10_100, 2)]);
    window.add(PASS, 40);
    clock.advance(millis(100));
    assert_eq!(list(&view), [(10_000, 1), (10_200, 42)], "the view counts back from the newest");
    assert_eq!(view.now().max_of_single_bucket(PASS), 42);
}

#[test]
fn near_the_beginning_of_time_there_are_fewer_buckets() {
    let (window, _) = window(4);
    window.add_at(t(150), PASS, 1);
    let starts: Vec<_> = window.at(t(150)).buckets().map(|it| it.start.as_millis()).collect();
    assert_eq!(starts, [0, 100]);
    assert_eq!(window.at(t(150)).sum(PASS), 1);
}

#[test]
fn one_array_has_many_handles() {
    let (window, _) = window(4);
    let clone = window.clone();
    let view = window.view(WindowConfig::new(1, millis(100)).unwrap()).unwrap();
    clone.add(PASS, 1);
    view.add(PASS, 1);
    assert_eq!((window.now().sum(PASS), clone.now().sum(PASS), view.now().sum(PASS)), (2, 2, 2));
    assert_eq!(window.lifetime(), view.lifetime());
}

#[test]
fn ledger_moves_counts_from_the_window_to_the_expired_and_loses_none() {
    let (window, clock) = window(2);
    let second = window.view(WindowConfig::new(1, millis(100)).unwrap()).unwrap();
    window.add(PASS, 1);
    clock.advance(millis(100));
    window.add(PASS, 10);
    clock.advance(millis(100));
    window.add(PASS, 100);
    window.add_at(t(10_000), PASS, 1_000);
    let parts = |window: &SlidingWindow<_>| {
        let ledger = window.now().ledger().map(|totals| totals.sum(PASS));
        [ledger.in_window, ledger.expired, ledger.late]
    };
    assert_eq!(parts(&window), [110, 1, 1_000]);
    assert_eq!(
        window.now().ledger().map(|totals| totals.sum(PASS)).to_string(),
        "1111 recorded = 110 in the window + 1 expired + 1000 late"
    );
    assert_eq!(parts(&second), [100, 11, 1_000]);
    clock.advance(Duration::from_secs(86_400));
    assert_eq!(parts(&window), [0, 111, 1_000]);
    assert_eq!(window.lifetime().sum(PASS), 1_111);
}

#[test]
fn read_back_in_time_finds_what_is_still_in_the_ring() {
    for (samples, first) in
        [1, 2, 3, 10].into_iter().flat_map(|samples| [(samples, 0), (samples, 50)])
    {
        let (window, clock) = window(samples as usize);
        let start = |age: u32| t(100 * (first + u64::from(age)));
        for age in 0..=samples {
            window.add_at(start(age), PASS, 10_u64.pow(age));
        }
        // The last bucket is in the slot of the first one, which is gone although its row is still
        // in the slot.
        let expected = (1..samples).map(|age| 10_u64.pow(age)).sum::<u64>();
        assert_eq!(window.at(start(samples - 1)).sum(PASS), expected, "{samples} from {first}");
        clock.set(start(samples - 1));
        assert_eq!(window.now().ledger().in_window.sum(PASS), expected);
    }
}

/// A clock that advances by one bucket each time that it is read.
struct TickingClock(ManualClock);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        let now = self.0.now();
        self.0.advance(millis(100));
        now
    }
}

#[test]
fn each_operation_looks_at_the_clock_once() {
    let clock = ManualClock::new(t(10_000));
    let config = WindowConfig::new(4, millis(400)).unwrap();
    let window = SlidingWindow::with_clock(config, TickingClock(clock.clone()));
    let reads_clock_once = |what: &str, op: &dyn Fn(&SlidingWindow<TickingClock>)| {
        let before = clock.now();
        op(&window);
        assert_eq!(clock.now().saturating_since(before), millis(100), "{what}");
    };
    reads_clock_once("add", &|it| it.add(PASS, 1));
    reads_clock_once("record_rt", &|it| it.record_rt_at(it.clock().now(), millis(1)));
    reads_clock_once("record_success", &|it| it.record_success(millis(1)));
    reads_clock_once("record_exception", &|it| it.record_exception(millis(1)));
    reads_clock_once("record_concurrency", &|it| it.record_concurrency_at(it.clock().now(), 1));
    reads_clock_once("sum", &|it| assert_eq!(it.now().sum(PASS), 0, "added more than a lap ago"));
    reads_clock_once("qps", &|it| assert!(it.now().qps(MetricEvent::Success) >= 0.0));
    reads_clock_once("avg_rt", &|it| assert_eq!(it.now().totals().avg_rt(), None));
}
