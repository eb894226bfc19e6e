//! Rules that follow a source.

use std::fs;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use leaparray::Registry;
use leaparray_rules::{
    Documents, Event, Follow, FollowError, Rules, Source, SourceError, SourceState, Wake,
};

const DEADLINE: Duration = Duration::from_secs(20);

fn text(burst: u64) -> String {
    format!(
        "[[rule]]\nname = \"orders\"\nresource = \"orders\"\n\
         limit = \"1 per day, bursts of {burst}\"\n"
    )
}

/// Follows a file that is read often.
fn follow(path: &std::path::Path) -> (Rules, Receiver<Event>) {
    let rules = Rules::new(Arc::new(Registry::new()));
    let (sender, events) = channel();
    let follow = Follow::file(path)
        .every(Duration::from_millis(40))
        .on_event(move |event| drop(sender.send(event.clone())));
    rules.follow(follow).unwrap();
    (rules, events)
}

fn state(rules: &Rules) -> SourceState {
    rules.status().source.expect("it is followed").state
}

#[test]
fn file_is_followed_however_it_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    fs::write(&path, text(3)).unwrap();
    let (rules, events) = follow(&path);
    assert!(rules.enter("orders", ()).unwrap().is_admitted());

    // Truncated and written.
    fs::write(&path, text(2)).unwrap();
    let Event::Applied(changes) = events.recv_timeout(DEADLINE).unwrap() else { panic!() };
    assert_eq!(changes.changed, [Arc::from("orders")]);

    // Replaced by a rename.
    fs::write(folder.path().join("new"), text(4)).unwrap();
    fs::rename(folder.path().join("new"), &path).unwrap();
    let Event::Applied(changes) = events.recv_timeout(DEADLINE).unwrap() else { panic!() };
    assert_eq!(changes.changed, [Arc::from("orders")]);

    // Away, and wrong: the last good rules stay.
    fs::remove_file(&path).unwrap();
    let Event::Away { error, .. } = events.recv_timeout(DEADLINE).unwrap() else { panic!() };
    assert!(matches!(state(&rules), SourceState::Away { .. }));
    assert!(!error.is_empty());
    fs::write(&path, "[[rule]]\nname = \"orders\"").unwrap();
    let Event::Wrong(problems) = events.recv_timeout(DEADLINE).unwrap() else { panic!() };
    assert!(problems.to_string().starts_with(&format!("{}:1: rule", path.display())));
    assert_eq!(state(&rules), SourceState::Wrong(problems));
    let left = (0..9).filter(|_| rules.enter("orders", ()).unwrap().is_admitted()).count();
    assert_eq!(left, 2, "of the three, none was given back");

    // Good again.
    fs::write(&path, text(4)).unwrap();
    let Event::Applied(changes) = events.recv_timeout(DEADLINE).unwrap() else { panic!() };
    assert!(changes.is_empty());
    assert_eq!(state(&rules), SourceState::Good);
    let status = rules.status();
    assert_eq!((status.version, status.rules), (4, 1));
}

#[test]
fn thread_ends_with_the_rules() {
    let rules = Rules::new(Arc::new(Registry::new()));
    let (sender, readings) = channel();
    let source = move || {
        let _ = sender.send(());
        Ok::<_, std::io::Error>("rule = []".to_owned())
    };
    let day = Duration::from_secs(86_400);
    rules.follow(Follow::source("test", source).every(day)).unwrap();
    rules.reload();
    for _ in 0..3 {
        readings.recv_timeout(DEADLINE).expect("two to begin with, and one on demand");
    }
    drop(rules);
    let end = loop {
        if let Err(end) = readings.recv_timeout(DEADLINE) {
            break end;
        }
    };
    assert_eq!(end, std::sync::mpsc::RecvTimeoutError::Disconnected, "the thread is gone");
}

#[test]
fn source_without_a_good_text_is_not_followed() {
    let rules = Rules::new(Arc::new(Registry::new()));
    let error = rules.follow(Follow::file("/no/such/file")).unwrap_err();
    assert!(matches!(error, FollowError::Away { .. }));
    assert!(error.to_string().starts_with("/no/such/file: "));
    let wrong = || Ok::<_, std::io::Error>("rule = 1".to_owned());
    let error = rules.follow(Follow::source("test", wrong)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test:1: rule: is an integer; write a table `[[rule]]` for each rule"
    );
    let mut number = 0;
    let changing = move || {
        number += 1;
        Ok::<_, std::io::Error>(format!("# {number}"))
    };
    let error = rules.follow(Follow::source("test", changing)).unwrap_err();
    assert_eq!(error.to_string(), "test: the text changes all the time");
    let panics = || -> Result<String, std::io::Error> { panic!("by the test") };
    let error = rules.follow(Follow::source("test", panics)).unwrap_err();
    assert_eq!(error.to_string(), "test: the source has panicked");
    assert_eq!((rules.status().version, rules.status().source), (0, None));
}

/// A program that reloads at each event of the file reads a half of it several times. The half
/// counts if it stays for a second.
#[test]
fn half_of_a_file_does_not_count_however_often_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    let other = "[[rule]]\nname = \"other\"\nresource = \"b\"\nin_flight = 1\n";
    fs::write(&path, text(3) + other).unwrap();
    let (rules, events) = follow(&path);
    let since = Instant::now();
    // Half of the file.
    fs::write(&path, text(2)).unwrap();
    let event = loop {
        rules.reload();
        if let Ok(event) = events.recv_timeout(Duration::from_millis(1)) {
            break event;
        }
        assert!(since.elapsed() < DEADLINE, "it happens in time");
    };
    let Event::Applied(changes) = event else { panic!() };
    assert_eq!(changes.removed, [Arc::from("other")]);
    assert!(since.elapsed() >= Duration::from_secs(1), "{:?}", since.elapsed());
    // The whole of another one counts sooner, if the machine has the time.
    fs::write(&path, text(4) + other).unwrap();
    let Event::Applied(changes) = events.recv_timeout(DEADLINE).unwrap() else { panic!() };
    assert_eq!((changes.changed.len(), changes.added.len()), (1, 1));
}

/// The times at which readings have begun and ended.
type Times = Arc<Mutex<Vec<(Instant, Instant)>>>;

/// A server that tells of changes all the time.
struct Restless {
    times: Times,
    /// Whether there is a text.
    is_good: bool,
}

impl Source for Restless {
    fn read(&mut self) -> Result<Documents, SourceError> {
        let began = Instant::now();
        self.times.lock().unwrap().push((began, Instant::now()));
        if self.is_good { Ok("rule = []\n".to_owned().into()) } else { Err("refused".into()) }
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn watch(&mut self, wake: Wake) {
        std::thread::spawn(move || {
            while wake.wake() {
                std::thread::yield_now();
            }
        });
    }
}

/// Returns the times between some readings of a source that tells of changes all the time.
fn gaps(is_good: bool, interval: Duration, readings: usize) -> Vec<Duration> {
    let times = Times::default();
    let source = Restless { times: Arc::clone(&times), is_good };
    let rules = Rules::new(Arc::new(Registry::new()));
    rules.follow(Follow::source("test", source).every(interval).may_be_away()).unwrap();
    while times.lock().unwrap().len() < readings {
        std::thread::yield_now();
    }
    let times = times.lock().unwrap();
    // The first one is that of `follow`, and the thread begins with the second one.
    times[1..readings].windows(2).map(|it| it[1].0 - it[0].1).collect()
}

#[test]
fn wakes_have_a_least_time_between_two_readings() {
    let least = Duration::from_millis(50);
    let gaps = gaps(true, DEADLINE, 5);
    assert!(gaps.iter().all(|it| *it >= least), "{gaps:?}");
}

#[test]
fn wakes_do_not_cancel_the_back_off() {
    let gaps = gaps(false, Duration::from_millis(60), 5);
    let least = [60, 120, 240].map(Duration::from_millis);
    assert!(gaps.iter().zip(least).all(|(gap, least)| *gap >= least), "{gaps:?}");
}

#[test]
fn state_has_the_last_error_of_an_absence() {
    let rules = Rules::new(Arc::new(Registry::new()));
    let mut readings = 0;
    let source = move || {
        readings += 1;
        Err::<String, _>(if readings < 5 { "refused" } else { "401 unauthorized" })
    };
    let (sender, events) = channel();
    let follow = Follow::source("test", source)
        .every(Duration::from_millis(1))
        .may_be_away()
        .on_event(move |event| drop(sender.send(event.clone())));
    rules.follow(follow).unwrap();
    let since = rules.status().source.unwrap().since;
    loop {
        let source = rules.status().source.unwrap();
        let SourceState::Away { error, .. } = source.state else { panic!() };
        if error == "401 unauthorized" {
            assert_eq!(source.since, since, "it is away since then");
            break;
        }
        assert!(source.readings < 50, "{error}");
        std::thread::yield_now();
    }
    drop(rules);
    assert!(events.recv().is_err(), "no event of it");
}

#[test]
fn reading_to_begin_with_is_counted() {
    for is_away in [false, true] {
        let rules = Rules::new(Arc::new(Registry::new()));
        let (end, wait) = channel::<()>();
        let source = move || {
            // The thread that follows the source ends no reading before `end` is dropped.
            if std::thread::current().name() == Some("leaparray-rules") {
                let _ = wait.recv();
            }
            if is_away { Err("refused") } else { Ok(text(1)) }
        };
        rules.follow(Follow::source("test", source).may_be_away()).unwrap();
        let status = rules.status().source.unwrap();
        assert_eq!((status.readings, status.failures), (1, u64::from(is_away)));
        drop(end);
    }
}
