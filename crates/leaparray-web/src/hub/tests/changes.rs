//! The changes that are reported: when alerts fire and resolve, and for how long the changes are
//! kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::flow::Reason;
use leaparray::{Clock as _, ManualClock, Registry, RegistryConfig, Timestamp};

use super::verdicts::{Seconds, row};
use super::{SECOND, START, Tested, take, take_seconds};
use crate::format::{
    Change, ChangeKind, Fleet, FleetProcess, FleetProcessState, Level, Message, UnreadCause,
};
use crate::hub::change_log::ChangeLog;
use crate::hub::steps::{SteppedViewer, Steps};
use crate::source::FleetSource;

/// A change in short: the second from the start, and what has changed.
fn short(change: &Change) -> (u64, String) {
    let text = match &change.kind {
        ChangeKind::Trouble { name, context, was, level, breaker, or_before, .. } => {
            let context = context.as_ref().map_or_else(String::new, |it| format!("/{it}"));
            let breaker = breaker.as_ref().map_or_else(String::new, |it| format!(", breaker {it}"));
            let before = if *or_before { ", or before" } else { "" };
            format!("{name}{context} {was:?} -> {level:?}{breaker}{before}")
        }
        ChangeKind::Breaker { name, state, .. } => format!("{name} breaker {state}"),
        ChangeKind::More { levels } => {
            format!("more: {} {} {}", levels.quiet, levels.strained, levels.failing)
        }
        ChangeKind::Listed { name, count } => format!("{name} listed, {count}"),
        ChangeKind::Gone { name, count } => format!("{name} gone, {count}"),
        ChangeKind::Process { name, count, state } => format!("{name} {state}, {count}"),
        ChangeKind::Unread { from, cause } => format!("not read from {}: {cause:?}", from - START),
        ChangeKind::Dropped { count } => format!("dropped: {count:?}"),
        other => format!("{other:?}"),
    };
    let reported = change.reported.map(|it| format!(", reported in {}", it - START));
    (change.t - START, text + &reported.unwrap_or_default())
}

fn all<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Vec<(u64, String)> {
    changes.into_iter().map(short).collect()
}

fn texts(found: &[(u64, String)]) -> Vec<(u64, &str)> {
    found.iter().map(|(t, text)| (*t, text.as_str())).collect()
}

#[test]
fn failure_and_its_breaker_are_one_change() {
    let mut seconds = Seconds::new();
    let id = seconds.id("POST /pay", None);
    let mut changes = seconds.next(&[row(id, 100, 0, 0)]);
    for _ in 0..3 {
        seconds.circuit("POST /pay", "open");
        changes.extend(seconds.next(&[row(id, 0, 40, 0)]));
    }
    seconds.circuit("POST /pay", "half-open");
    changes.extend(seconds.next(&[]));
    seconds.circuit("POST /pay", "closed");
    for _ in 0..25 {
        changes.extend(seconds.next(&[row(id, 100, 0, 0)]));
    }
    let found = all(&changes);
    // In second 12, less than 5 % of the last ten seconds fail, and in second 13 none. That lasts
    // for ten seconds.
    assert_eq!(
        texts(&found),
        [
            (1, "POST /pay Quiet -> Failing, breaker open"),
            (4, "POST /pay breaker half-open"),
            (5, "POST /pay breaker closed"),
            (13, "POST /pay Failing -> Quiet, reported in 23"),
        ]
    );
}

#[test]
fn alert_resolves_to_the_level_that_has_lasted() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    let mut changes = Vec::new();
    for t in 0..60 {
        let failed = match t {
            0 => 200,
            // For 25 s more, 2 to 3 % fail.
            1..=25 => 2 + t % 2,
            _ => 0,
        };
        changes.extend(seconds.next(&[row(id, 100, failed, 0)]));
    }
    let expected = [
        (0, "a Quiet -> Failing"),
        // In second 10, second 0 has left the ten seconds. In second 31, less than 1 % of them fail.
        (10, "a Failing -> Strained, reported in 20"),
        (31, "a Strained -> Quiet, reported in 41"),
    ];
    assert_eq!(texts(&all(&changes)), expected);
}

#[test]
fn finding_of_another_kind_ends_no_alert() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    let mut changes = seconds.next(&[row(id, 0, 100, 0)]);
    (0..9).for_each(|_| drop(seconds.next(&[])));
    // Refusals begin, at a lower level, as the failures leave the ten seconds.
    changes.extend(seconds.next(&[row(id, 1_000, 0, 20)]));
    changes.extend((0..30).flat_map(|_| seconds.next(&[])));
    let expected = [
        (0, "a Quiet -> Failing"),
        (10, "a Failing -> Failing"),
        (20, "a Failing -> Quiet, reported in 30"),
    ];
    assert_eq!(texts(&all(&changes)), expected);
}

#[test]
fn alert_that_resolves_in_a_gap_may_have_resolved_before() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    let mut changes = seconds.next(&[row(id, 0, 100, 0)]);
    seconds.watch().restart();
    seconds.t += 300;
    changes.extend((0..20).flat_map(|_| seconds.next(&[row(id, 100, 0, 0)])));
    let expected =
        [(0, "a Quiet -> Failing"), (301, "a Failing -> Quiet, or before, reported in 311")];
    assert_eq!(texts(&all(&changes)), expected);
}

#[test]
fn flapping_resource_adds_few_changes() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    let mut changes = Vec::new();
    // It fails for a second in each half minute, for ten minutes.
    for second in 0..600 {
        let failed = if second % 30 == 0 { 100 } else { 0 };
        changes.extend(seconds.next(&[row(id, 50, failed, 0)]));
    }
    let found = all(&changes);
    let found = texts(&found);
    assert_eq!(found[..2], [(0, "a Quiet -> Failing"), (10, "a Failing -> Quiet, reported in 20")]);
    assert_eq!(found[2..], [(30, "a Quiet -> Failing")], "it resolves only after 20 s");
    let quiet: Vec<_> = (0..40).flat_map(|_| seconds.next(&[row(id, 50, 0, 0)])).collect();
    assert_eq!(texts(&all(&quiet)), [(580, "a Failing -> Quiet, reported in 600")]);
}

#[test]
fn flapping_breaker_adds_few_changes() {
    let mut seconds = Seconds::new();
    seconds.id("a", None);
    let mut changes = Vec::new();
    for second in 0..600 {
        seconds.circuit("a", if second % 5 < 4 { "open" } else { "half-open" });
        changes.extend(seconds.next(&[]));
    }
    let found = all(&changes);
    assert_eq!(
        texts(&found),
        [
            (0, "a Quiet -> Failing, breaker open"),
            (4, "a breaker half-open"),
            (5, "a breaker open")
        ]
    );
}

#[test]
fn each_kind_of_trouble_fires() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", Some("web"));
    let mut changes = seconds.next(&[row(id, 100, 5, 0)]);
    changes.extend(seconds.next(&[row(id, 100, 5, 5)]));
    // They take turns, which is no change.
    for second in 0..60 {
        let is_odd = second % 2;
        changes.extend(seconds.next(&[row(id, 20, is_odd, 1 - is_odd)]));
    }
    let found = all(&changes);
    let expected = [(0, "a/web Quiet -> Strained"), (1, "a/web Strained -> Strained")];
    assert_eq!(texts(&found), expected);
}

#[test]
fn kinds_of_trouble_that_take_turns_add_few_changes() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    let mut changes = Vec::new();
    // Requests fail or are refused in turn, and neither for two seconds between.
    for second in 0..600 {
        let (failed, refused) = match second % 24 {
            0 => (4, 0),
            12 => (0, 4),
            _ => (0, 0),
        };
        changes.extend(seconds.next(&[row(id, 10, failed, refused)]));
    }
    assert!(changes.len() < 16, "{:?}", all(&changes));
}

#[test]
fn many_resources_at_once_are_counted() {
    let mut seconds = Seconds::new();
    let ids: Vec<_> = (0..1_000).map(|it| seconds.id(&format!("{it:04}"), None)).collect();
    let rows: Vec<_> =
        ids.iter().map(|&id| row(id, 100, if id == 500 { 50 } else { 4 }, 0)).collect();
    let found = all(&seconds.next(&rows));
    assert_eq!(found.len(), 9);
    assert_eq!(found[0].1, "0499 Quiet -> Failing");
    assert_eq!(found[1].1, "0000 Quiet -> Strained");
    assert_eq!(found[8].1, "more: 0 992 0");
}

#[test]
fn trouble_of_the_first_seconds_may_have_begun_before() {
    let mut seconds = Seconds::new();
    seconds.t = START + 99;
    let (a, b) = (seconds.id("a", None), seconds.id("b", None));
    let mut changes = seconds.next(&[row(a, 0, 50, 0)]);
    for _ in 0..10 {
        changes.extend(seconds.next(&[row(a, 0, 50, 0)]));
    }
    changes.extend(seconds.next(&[row(b, 0, 50, 0)]));
    let found = all(&changes);
    let expected = [(100, "a Quiet -> Failing, or before"), (111, "b Quiet -> Failing")];
    assert_eq!(texts(&found), expected);
}

#[test]
fn processes_of_a_fleet_are_reported_together() {
    let mut seconds = Seconds::new();
    let mut fleet = Fleet::new("orders");
    for number in 0..9 {
        let state = FleetProcessState::Live;
        fleet.processes.push(FleetProcess::new(
            format!("{number}"),
            format!("web-{number}"),
            state,
        ));
    }
    seconds.watch().fleet(&fleet);
    assert_eq!(all(&seconds.next(&[])), []);
    fleet.processes[7].state = FleetProcessState::Lost;
    fleet.processes.remove(2);
    seconds.watch().fleet(&fleet);
    let found = all(&seconds.next(&[]));
    assert_eq!(texts(&found), [(1, "web-7 lost, 1"), (1, "web-2 gone, 1")]);
    // That a lost one is gone is no news. Further ones are reported ten seconds later, together.
    fleet.processes.retain(|it| it.state == FleetProcessState::Live);
    seconds.watch().fleet(&fleet);
    for _ in 0..2 {
        fleet.processes.pop();
        seconds.watch().fleet(&fleet);
    }
    let later: Vec<_> = (0..10).flat_map(|_| seconds.next(&[])).collect();
    assert_eq!(texts(&all(&later)), [(11, "web-8 gone, 2")]);
}

fn changes_of(viewer: &SteppedViewer) -> Vec<(u64, String)> {
    let changes = take(viewer).into_iter().filter_map(|message| match message {
        Message::Changes(it) => Some(it.changes),
        _ => None,
    });
    all(&changes.flatten().collect::<Vec<_>>())
}

#[test]
fn later_viewer_sees_the_changes_of_ten_minutes() {
    let mut tested = Tested::new();
    let first = tested.steps.join(None, None).unwrap();
    tested.succeed("healthy", 1);
    tested.next_second();
    tested.registry.resource("POST /pay").unwrap().block_many_at(tested.registry.clock().now(), 50);
    tested.next_second();
    let expected = [(1, "POST /pay Quiet -> Failing"), (1, "POST /pay listed, 1")];
    assert_eq!(texts(&changes_of(&first)), expected);
    for _ in 0..500 {
        tested.next_second();
        take(&first);
    }
    let later = tested.steps.join(None, None).unwrap();
    let light = tested.steps.join_light(None).unwrap();
    let resolved = (11, "POST /pay Failing -> Quiet, reported in 21");
    let kept = [expected[0], expected[1], resolved];
    tested.steps.welcome();
    assert_eq!(texts(&changes_of(&later)), kept);
    assert_eq!(texts(&changes_of(&light)), kept);
    let since = tested.steps.join_light(Some(START + 1)).unwrap();
    assert_eq!(texts(&changes_of(&since)), [resolved]);
    for _ in 0..101 {
        tested.next_second();
        take(&first);
    }
    let after = tested.steps.join_light(None).unwrap();
    assert_eq!(texts(&changes_of(&after)), [resolved]);
}

#[test]
fn light_viewer_gets_totals_and_changes_only() {
    let mut tested = Tested::new();
    let full = tested.steps.join(None, None).unwrap();
    let light = tested.steps.join_light(None).unwrap();
    for number in 0..20 {
        tested.succeed(&format!("resource {number}"), 1);
    }
    tested.registry.resource("POST /pay").unwrap().block_many_at(tested.registry.clock().now(), 50);
    tested.next_second();
    let messages = take(&light);
    let [Message::Hello(_), Message::Changes(_), Message::Totals(totals)] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!(totals.t, START);
    let levels = totals.levels;
    assert_eq!((levels.quiet, levels.strained, levels.failing), (20, 0, 1));
    assert_eq!(full.take().map(|it| it.is_ok()), Some(true));
    tested.next_second();
    let line = light.take().unwrap().unwrap();
    assert_eq!(&line[..], b"{\"type\":\"totals\",\"t\":1001,\"levels\":[20,0,1]}\n");
    assert!(light.take().is_none());
    tested.clock.advance(SECOND / 2);
    tested.steps.step(tested.clock.now());
    assert!(light.take().is_none(), "no second was complete");
}

fn gone(t: u64) -> Change {
    Change::new(START + t, ChangeKind::Gone { name: "a".into(), count: 1 })
}

/// The alert of the resource `a`, which was `was` and is `level`, in short: see [`short`].
fn trouble(t: u64, was: Level, level: Level) -> Change {
    let kind = ChangeKind::Trouble {
        name: "a".into(),
        context: None,
        was,
        level,
        findings: Vec::new(),
        breaker: None,
        or_before: false,
    };
    let t = START + t;
    if level < was { Change { t: t - 10, reported: Some(t), kind } } else { Change::new(t, kind) }
}

const NO_VIEWER: UnreadCause = UnreadCause::NoViewer;

#[test]
fn change_is_reported_once_although_another_task_reads_its_second_again() {
    let mut log = ChangeLog::new(START);
    let added = log.extend(START, START + 10, NO_VIEWER, vec![gone(3), gone(9)]);
    assert_eq!(added.len(), 2);
    let added = log.extend(START + 5, START + 20, NO_VIEWER, vec![gone(9), gone(12)]);
    assert_eq!(all(&added), [(12, "a gone, 1".to_owned())]);
    let added = log.extend(START + 30, START + 40, NO_VIEWER, vec![gone(30)]);
    let expected = [(30, "not read from 20: NoViewer"), (30, "a gone, 1")];
    assert_eq!(texts(&all(&added)), expected);
    assert_eq!(log.after(Some(START + 12)).len(), 2);
}

#[test]
fn log_is_bounded_and_says_how_many_are_missing() {
    let mut log = ChangeLog::new(START);
    log.extend(START, START + 1, NO_VIEWER, (0..2_000).map(|_| gone(0)).collect());
    let kept = log.after(None);
    assert_eq!(kept.len(), 513);
    assert_eq!(texts(&all(&kept[512..])), [(0, "dropped: Some(1488)")]);
    log.extend(START + 1, START + 601, NO_VIEWER, vec![gone(600)]);
    assert_eq!(texts(&all(&log.after(None))), [(600, "a gone, 1")], "ten minutes are over");
}

#[test]
fn log_keeps_what_begins_an_incident_for_longest() {
    use Level::{Failing, Quiet, Strained};

    let mut log = ChangeLog::new(START);
    log.extend(START, START + 1, NO_VIEWER, vec![trouble(0, Quiet, Failing)]);
    for t in 1..300 {
        let changes = vec![trouble(t, Quiet, Strained), trouble(t, Strained, Quiet), gone(t)];
        log.extend(START + t, START + t + 1, NO_VIEWER, changes);
    }
    let kept = log.after(None);
    assert_eq!(texts(&all(&kept[..1])), [(0, "a Quiet -> Failing")]);
    let is_strained = |it: &&Change| short(it).1 == "a Quiet -> Strained";
    assert_eq!(kept.iter().filter(is_strained).count(), 299, "all that fired");
    let dropped = kept.iter().position(|it| matches!(it.kind, ChangeKind::Dropped { .. }));
    // All 299 that resolved, and the oldest 87 that are gone.
    assert_eq!(short(&kept[dropped.unwrap()]), (299, "dropped: Some(386)".into()));
    assert!(kept.windows(2).all(|it| it[0].reported_at() <= it[1].reported_at()));
    // A viewer that has the first ones misses no more than those of later seconds.
    let later = log.after(Some(START + 297));
    assert_eq!(later.len(), 2 * 2 + 1);
    assert_eq!(short(&later[4]), (299, "dropped: Some(2)".into()));
}

#[test]
fn viewer_that_resumes_after_ten_minutes_knows_that_changes_are_missing() {
    let mut log = ChangeLog::new(START);
    for t in [3, 5, 700] {
        log.extend(START + t, START + t + 1, UnreadCause::Stalled, vec![gone(t)]);
    }
    let gap = (700, "not read from 6: Stalled");
    let kept = [gap, (700, "a gone, 1")];
    let after = |t| all(&log.after(t));
    assert_eq!(texts(&after(Some(START + 4))), [(5, "dropped: None"), kept[0], kept[1]]);
    assert_eq!(texts(&after(Some(START + 5))), kept);
    assert_eq!(texts(&after(None)), kept, "a new viewer expects those of ten minutes");
}

#[test]
fn seconds_before_the_first_viewer_are_not_read() {
    let mut tested = Tested::new();
    tested.clock.advance(200 * SECOND);
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    // The registry has the last minute.
    assert_eq!(texts(&changes_of(&viewer)), [(142, "not read from 0: NoViewer")]);
}

#[test]
fn reading_that_comes_too_late_is_told_apart_from_a_time_without_viewers() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    take(&viewer);
    tested.clock.advance(200 * SECOND);
    tested.next_second();
    assert_eq!(texts(&changes_of(&viewer)), [(143, "not read from 1: Stalled")]);
}

#[test]
fn reasons_from_before_the_first_viewer_are_not_known() {
    let mut tested = Tested::new();
    let orders = tested.registry.resource("orders").unwrap();
    let viewer = tested.steps.join(None, None).unwrap();
    let mut reasons = Vec::new();
    for reason in [Reason::Failing, Reason::LimitReached] {
        orders.refuse_many_at(tested.clock.now(), 50, reason);
        tested.next_second();
        let verdicts = take_seconds(&viewer).pop().unwrap().verdicts.unwrap();
        reasons.push(verdicts[0].findings[0].reason);
    }
    assert_eq!(reasons, [None, Some(0)]);
}

#[test]
fn level_is_that_of_the_stream() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.registry.resource("POST /pay").unwrap().block_many_at(tested.registry.clock().now(), 50);
    tested.succeed("healthy", 1);
    tested.next_second();
    let second = take_seconds(&viewer).pop().unwrap();
    let verdicts = second.verdicts.unwrap();
    assert_eq!((verdicts.len(), verdicts[0].level()), (1, Level::Failing));
    assert_eq!((second.levels.unwrap().quiet, second.levels.unwrap().failing), (1, 1));
}

#[test]
fn process_that_goes_is_reported_with_the_next_second() {
    let clock = ManualClock::new(Timestamp::from_secs(START));
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let calls = AtomicU64::new(0);
    let source = FleetSource::new(move || {
        let mut fleet = Fleet::new("orders");
        let state = match calls.fetch_add(1, Ordering::Relaxed) {
            0 => FleetProcessState::Live,
            _ => FleetProcessState::Lost,
        };
        fleet.processes.push(FleetProcess::new("1", "web-1", state));
        Some(fleet)
    });
    let mut steps = Steps::with_fleet(Arc::new(registry), Duration::ZERO, source);
    let viewer = steps.join(None, None).unwrap();
    for _ in 0..3 {
        clock.advance(SECOND);
        steps.step(clock.now());
    }
    assert_eq!(texts(&changes_of(&viewer)), [(2, "web-1 lost, 1")]);
}
