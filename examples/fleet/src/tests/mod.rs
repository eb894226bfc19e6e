//! Tests of the parts without a process, a server or a real time.

mod monitor;
mod windows;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Parser;
use leaparray_redis::fleet::Presence;

use crate::args::{Args, one_line};
use crate::audit::{Audit, Window};
use crate::clock::Offset;
use crate::events::{Step, steps, victim};
use crate::notes::{Endings, Use};
use crate::report::{Times, report};
use crate::status::{State, Status};
use crate::table::{self, LastSecond, Seen};
use crate::watch::Watch;
use crate::{limit, load};

/// A bucket of the limit, in microseconds.
const B: u64 = 100_000;

/// `count` uses in the middle of a bucket.
fn uses(bucket: u64, count: usize) -> impl Iterator<Item = Use> {
    let at = bucket * B + B / 2;
    std::iter::repeat_n(Use { earliest: at, latest: at + 10 }, count)
}

/// A use that was before or after the end of a bucket.
fn at_end_of(bucket: u64) -> Use {
    let end = (bucket + 1) * B;
    Use { earliest: end - 5, latest: end + 5 }
}

fn audit(uses: impl IntoIterator<Item = Use>) -> Audit {
    Audit::new(&limit::config(10).unwrap(), uses, [])
}

#[test]
fn window_has_ten_buckets() {
    let audit = audit(uses(100, 4).chain(uses(109, 6)).chain(uses(110, 3)));
    let window = |first| audit.window(first).certain;
    assert_eq!([90, 91, 100, 101, 110, 111].map(window), [0, 4, 10, 9, 3, 0]);
    assert_eq!(audit.highest(), Some(Window { first: 100, certain: 10, at_most: 10 }));
    assert_eq!(audit.bounds(&audit.window(100)), (100 * B, 110 * B));
}

#[test]
fn use_at_the_end_of_a_bucket_counts_certainly_only_in_windows_with_both_buckets() {
    let audit = audit([at_end_of(109)]);
    let window = |first| (audit.window(first).certain, audit.window(first).at_most);
    assert_eq!(
        [99, 100, 101, 109, 110, 111].map(window),
        [(0, 0), (0, 1), (1, 1), (1, 1), (0, 1), (0, 0)]
    );
    assert_eq!((audit.unclear(), audit.most_possible()), (1, 1));
}

#[test]
fn lost_request_never_counts_certainly() {
    let lost = [
        Use { earliest: 105 * B, latest: 105 * B + 10 },
        Use { earliest: 108 * B, latest: u64::MAX },
    ];
    let audit = Audit::new(&limit::config(10).unwrap(), uses(100, 10), lost);
    assert_eq!(audit.highest(), Some(Window { first: 100, certain: 10, at_most: 12 }));
    assert_eq!((audit.window(106).at_most, audit.window(1_000_000).at_most), (1, 1));
}

#[test]
fn most_possible_is_of_any_window() {
    let audit = audit(uses(100, 10).chain([at_end_of(99), at_end_of(109)]));
    assert_eq!(audit.highest(), Some(Window { first: 99, certain: 11, at_most: 11 }));
    assert_eq!(audit.most_possible(), 12);
    assert_eq!(self::audit([]).most_possible(), 0);
}

#[test]
fn utilisation_is_that_of_whole_windows_in_the_spans() {
    // In each bucket one use of one that is allowed, and nothing from 2 s to 3 s.
    let audit = audit((0..20).chain(30..60).flat_map(|it| uses(it, 1)));
    assert_eq!(audit.utilisation(&[(0, 20 * B), (30 * B, 60 * B)]), Some(1.0));
    assert_eq!(audit.utilisation(&[(5 * B + 1, 20 * B)]), Some(1.0));
    assert_eq!(audit.utilisation(&[(20 * B, 30 * B), (30 * B, 40 * B)]), Some(0.5));
    assert_eq!(audit.utilisation(&[(0, 10 * B - 1)]), None);
}

#[test]
fn report_fails_if_a_window_has_more_than_the_limit() {
    let endings =
        |count| Endings { uses: uses(120, count).collect(), refused: 7, ..Endings::default() };
    let report = |endings: &Endings| {
        let times = Times { began: 110 * B, error: 84, leasing: &[(115 * B, 130 * B)] };
        report(&audit(endings.uses.clone()), endings, &times)
    };
    let good = report(&endings(10));
    assert!(good.failures.is_empty(), "{good:?}");
    assert!(
        good.text.contains("highest window   10 of 10 permits, from 1.0 s to 2.0 s\n"),
        "{good:?}"
    );
    assert!(good.text.ends_with("no window has more than the limit\n"), "{good:?}");
    let bad = report(&endings(11));
    assert_eq!(
        bad.failures,
        ["the window from 1.0 s to 2.0 s has 11 admitted requests, 1 more than the limit"]
    );
    assert!(!bad.text.contains("no window has more"), "{bad:?}");
}

#[test]
fn report_fails_without_an_admitted_request_and_with_an_unexpected_ending() {
    let unexpected = BTreeMap::from([("status 500".to_owned(), 2)]);
    let endings = Endings { unexpected, ..Endings::default() };
    assert_eq!(
        report(&audit([]), &endings, &Times { began: 0, error: 0, leasing: &[] }).failures,
        [
            "2 requests ended with: status 500",
            "no request was admitted, so the audit shows nothing"
        ]
    );
}

#[test]
fn offset_covers_the_round_trip() {
    // The server is 1,000 ahead, and its time was read within 40.
    let offset = Offset::measured(5_000, 6_020, 5_040);
    assert_eq!(offset.error(), 40);
    let it = Use { earliest: 7_000, latest: 7_001 };
    assert_eq!(offset.to_server(it), Use { earliest: 7_980, latest: 8_021 });
    assert_eq!(offset.server_time(7_000), 8_000);
    let wider = offset.and(Offset::SAME_CLOCK);
    assert_eq!(wider.to_server(it), Use { earliest: 7_000, latest: 8_021 });
    assert_eq!(Offset::SAME_CLOCK.to_server(it), it);
}

#[test]
fn texts_between_the_processes_can_be_read() {
    for state in State::ALL {
        let status = Status { state, in_hand: 3, admitted: 20, refused: 100 };
        assert_eq!(status.to_string().parse(), Ok(status));
    }
    let it = Use { earliest: 5, latest: 17 };
    assert_eq!(it.to_string().parse(), Ok(it));
    for text in ["", "leasing 1 2", "asleep 1 2 3", "leasing 1 2 -3"] {
        assert!(text.parse::<Status>().is_err(), "{text}");
    }
    for text in ["", "5", "5-", "5-x"] {
        assert!(text.parse::<Use>().is_err(), "{text}");
    }
}

fn seen(state: State) -> Seen {
    Seen::Status(Status { state, in_hand: 41, admitted: 520, refused: 1_364 })
}

#[test]
fn cells_of_the_table_are_below_their_headings() {
    let heading = table::heading(3, 1_000);
    let cells = [seen(State::Quarantine), Seen::Killed, Seen::Silent];
    let last = LastSecond {
        ago: 2,
        admitted: 1_000,
        refused: 1_497,
        processes: Presence { present: 3, expected: 4 },
    };
    let row = table::row(Duration::from_millis(12_049), &cells, 998, Some(last));
    let row_without = table::row(Duration::from_millis(13_049), &cells, 1_000, None);
    assert_eq!(
        format!("{heading}{row}{row_without}"),
        "
         -------- process 1 ---------  -------- process 2 ---------  -------- process 3 ---------   fleet  -- last final second of all ---
 time    state      hand   ok/s  429/s  state      hand   ok/s  429/s  state      hand   ok/s  429/s  of 1000  ended   ok/s  429/s  processes
 12.0 s  quarantine   41    520   1364  killed        -      -      -  no answer     -      -      -      998   -2 s   1000   1497  3 of 4
 13.0 s  quarantine   41    520   1364  killed        -      -      -  no answer     -      -      -     1000      -      -      -  -
"
    );
    assert_eq!(table::event(Duration::from_millis(3_800), "a change"), "  3.8 s  a change\n");
}

#[test]
fn fleet_has_the_state_of_all_processes_that_answer() {
    let mut watch = Watch::default();
    let (quarantine, leasing) = (seen(State::Quarantine), seen(State::Leasing));
    assert_eq!(watch.see(&[quarantine, quarantine], 1), Some(State::Quarantine));
    assert_eq!(watch.see(&[leasing, quarantine], 2), None);
    assert_eq!(watch.see(&[leasing, Seen::Killed], 3), Some(State::Leasing));
    assert_eq!(watch.see(&[leasing, leasing], 4), None);
    assert_eq!(watch.see(&[Seen::Killed, Seen::Silent], 5), None);
    assert_eq!(watch.see(&[seen(State::Away); 2], 6), Some(State::Away));
    assert_eq!(watch.see(&[leasing; 2], 8), Some(State::Leasing));
    watch.end(10);
    watch.end(11);
    assert_eq!(watch.leasing(), [(3, 6), (8, 10)]);
}

#[test]
fn only_a_server_of_this_program_is_killed() {
    let millis = Duration::from_millis;
    let [own, named] = [true, false].map(|it| Vec::from(steps(12, it)));
    assert_eq!(own, [(millis(3_800), Step::KillProcess), (millis(7_800), Step::KillServer)]);
    assert_eq!(named, [(millis(3_800), Step::KillProcess), (millis(7_800), Step::LeaveServer)]);
    assert_eq!([1, 2, 6].map(victim), [0, 1, 1]);
}

#[test]
fn processes_that_are_left_have_more_requests_than_the_limit() {
    for processes in 2..=6 {
        let mut rates = load::rates(1_000, processes);
        assert!((rates.iter().sum::<f64>() / 1_000.0 - load::DEMAND).abs() < 1e-9, "{rates:?}");
        rates.remove(victim(processes));
        assert!(rates.iter().sum::<f64>() > 1_200.0, "{rates:?}");
    }
}

fn error(args: &[&str]) -> String {
    let error = Args::try_parse_from([&["fleet"], args].concat()).unwrap_err();
    assert!(error.use_stderr());
    one_line(&error)
}

#[test]
fn wrong_arguments_are_explained_in_one_line() {
    assert_eq!(
        error(&["--seconds", "3"]),
        "error: invalid value '3' for '--seconds <SECONDS>': 3 is not in 9..=3600"
    );
    assert_eq!(
        error(&["--processes", "7"]),
        "error: invalid value '7' for '--processes <NUMBER>': 7 is not in 1..=6"
    );
    assert_eq!(error(&["--fast"]), "error: unexpected argument '--fast' found");
    let args =
        Args::try_parse_from(["fleet", "--redis", "redis://host", "--limit", "5000"]).unwrap();
    assert_eq!(
        (args.redis.as_deref(), args.limit, args.seconds),
        (Some("redis://host"), 5_000, 18)
    );
}
