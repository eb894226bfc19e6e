//! Rules that refuse by a measure of another resource, or of all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use leaparray::flow::{Ask, Limiter};
use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_rules::{Overload, RuleSet, Rules};

fn rules(refuse: &str) -> (ManualClock, Rules<ManualClock>) {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let rules = Rules::new(Arc::new(registry));
    let text = format!("[[rule]]\nname = \"r\"\nresource = \"read\"\nrefuse = \"{refuse}\"\n");
    rules.apply(&RuleSet::parse(&text).unwrap_or_else(|it| panic!("{it}")));
    (clock, rules)
}

fn admits(rules: &Rules<ManualClock>) -> bool {
    rules.try_enter("read", ()).map(leaparray::Entry::success).is_ok()
}

#[test]
fn resource_gives_way_to_the_rate_of_another_one() {
    let (clock, rules) = rules("from 3 per second at write");
    let write = || rules.try_enter("write", ()).unwrap().success();
    assert!((0..50).all(|_| admits(&rules)), "its own rate does not matter");
    (0..2).for_each(|_| write());
    assert!(admits(&rules));
    let web = rules.registry().resource("write").unwrap().in_context("web").unwrap();
    web.enter().success();
    assert!(!admits(&rules), "the three of the node and of its context");
    let refusal = rules.enter("read", ()).unwrap().refusal().unwrap();
    assert_eq!(refusal.to_string(), "refused by r: another resource is busy");
    write();
    clock.advance(Duration::from_secs(1));
    assert!(admits(&rules));
}

#[test]
fn resource_gives_way_to_the_requests_in_flight_of_another_one() {
    let (_, rules) = rules("from 2 in flight at write");
    let held = [(); 2].map(|()| rules.try_enter("write", ()).unwrap());
    assert!(!admits(&rules));
    let [one, _other] = held;
    one.success();
    assert!(admits(&rules));
}

#[test]
fn limit_of_nothing_refuses_all() {
    assert!(!admits(&rules("from 0 per second at write").1));
    assert!(!admits(&rules("from 0 in flight at write").1));
}

#[test]
fn requests_are_refused_while_the_mean_response_time_is_above() {
    let (clock, rules) = rules("above 20ms");
    let respond = |millis| {
        let entry = rules.try_enter("write", ()).unwrap();
        clock.advance(Duration::from_millis(millis));
        entry.success();
    };
    respond(10);
    respond(30);
    clock.advance(Duration::from_millis(100));
    assert!(admits(&rules), "20 ms are not above");
    respond(200);
    clock.advance(Duration::from_millis(100));
    assert!(!admits(&rules));
    clock.advance(Duration::from_secs(2));
    assert!(admits(&rules));
}

/// Rules that refuse, because a request has just taken 300 ms.
fn refusing_rules() -> (ManualClock, Rules<ManualClock>) {
    let (clock, rules) = rules("above 200ms");
    respond_slowly(&clock, &rules);
    assert!(!admits(&rules));
    (clock, rules)
}

fn respond_slowly(clock: &ManualClock, rules: &Rules<ManualClock>) {
    let entry = rules.try_enter("write", ()).unwrap();
    clock.advance(Duration::from_millis(300));
    entry.success();
}

#[test]
fn requests_are_admitted_after_the_clock_has_stepped_back() {
    for step in [500, 1_000, 60_000, 3_000_000].map(Duration::from_millis) {
        let (clock, rules) = refusing_rules();
        clock.set(clock.now().saturating_sub(step));
        assert!(admits(&rules), "{step:?}: nothing is slow at that time");
    }
}

#[test]
fn decision_with_a_time_ahead_voids_no_measure() {
    let (clock, rules) = refusing_rules();
    let read = rules.registry().resource("read").unwrap();
    let admits_at = |now| rules.limiter(&read, &()).decide(&Ask::at(now)).is_admitted();
    for ahead in [1, 60, 3_600].map(Duration::from_secs) {
        assert!(admits_at(clock.now().saturating_add(ahead)), "nothing is slow at that time");
        assert!(!admits_at(clock.now()), "{ahead:?}");
        clock.advance(Duration::from_secs(2));
        assert!(admits_at(clock.now()));
        respond_slowly(&clock, &rules);
        assert!(!admits_at(clock.now()), "{ahead:?}");
    }
}

/// A thread keeps the plan by which it has decided last.
#[test]
fn idle_thread_keeps_no_registry() {
    /// Notes that it was dropped.
    struct Noted(Arc<AtomicBool>);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    for measure in ["from 3 per second at write", "from 2 in flight at write", "above 1s"] {
        let (_, rules) = rules(measure);
        let is_dropped = Arc::new(AtomicBool::new(false));
        let write = rules.registry().resource("write").unwrap();
        write.data_or_insert_with(|| Noted(Arc::clone(&is_dropped)));
        drop(write);
        let (decided, wait) = mpsc::channel();
        let (end, idle) = mpsc::channel::<()>();
        let theirs = rules.clone();
        let thread = thread::spawn(move || {
            assert!(admits(&theirs));
            drop(theirs);
            decided.send(()).unwrap();
            assert!(idle.recv().is_err(), "the end");
        });
        wait.recv().unwrap();
        rules.apply(&RuleSet::default());
        let registry = Arc::downgrade(rules.registry());
        drop(rules);
        let is_gone = registry.upgrade().is_none();
        drop(end);
        thread.join().unwrap();
        assert!(is_gone && is_dropped.load(Ordering::Relaxed), "{measure}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn share_of_the_processors_is_a_measure() {
    let (clock, idle) = rules("above 100 % cpu");
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        assert!(admits(&idle), "no share is above");
    }
}

#[test]
fn measure_is_read_and_printed() {
    for text in [
        "from 100 per second at POST /orders at night",
        "from 8 in flight at payments.internal",
        "above 200ms",
        "above 12.5 % cpu",
    ] {
        assert_eq!(text.parse::<Overload>().unwrap().to_string(), text);
    }
    for (line, wrong) in [
        ("refuse = \"from many per second at a\"", "\"many\" is no whole number"),
        ("refuse = \"from 5 per minute at a\"", "\"from 5 per minute at a\" is no measure"),
        ("refuse = \"above 120 % cpu\"", "\"120 %\" is no share from 0 % to 100 %"),
        ("refuse = \"above all\"", "\"all\" is no time"),
        ("refuse = \"all\"", "\"all\" is no measure"),
    ] {
        let text = format!("[[rule]]\nname = \"r\"\nresource = \"a\"\n{line}\n");
        let expected = format!(
            "f:4: rule \"r\": refuse: {wrong}; write \"from 100 per second at NAME\", \"from 8 in \
             flight at NAME\", \"above 200ms\" or \"above 80 % cpu\""
        );
        assert_eq!(RuleSet::parse(&text).unwrap_err().in_source("f").to_string(), expected);
    }
    let text =
        "[[rule]]\nname = \"r\"\nresource = \"a\"\nkey = \"client\"\nrefuse = \"above 1s\"\n";
    let problem = RuleSet::parse(text).unwrap_err().to_string();
    assert_eq!(
        problem,
        "line 4: rule \"r\": key: cannot stand beside `refuse`; remove one of them"
    );
}
