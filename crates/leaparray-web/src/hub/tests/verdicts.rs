//! The rule, with rows that are made for it.

use super::START;
use crate::format::{
    Change, Controller, ControllerState, Counts, FindingKind, Level, Levels, RefusedRow, Row,
    ShadowState, Verdict,
};
use crate::hub::judge::Judge;
use crate::hub::nodes::{Changes, Label, Nodes};
use crate::hub::watch::Watch;
use leaparray::EventCounts;
use leaparray::MetricEvent::{Block, Exception, Pass, Rt, Success};
use leaparray::flow::Reason;

/// The rule, the changes that it finds, and the nodes that it knows.
pub(super) struct Seconds {
    pub(super) nodes: Nodes,
    judge: Judge,
    watch: Watch,
    controllers: Vec<Controller>,
    refused: Vec<RefusedRow>,
    pub(super) levels: Levels,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) t: u64,
}

impl Seconds {
    pub(super) fn new() -> Self {
        Self {
            nodes: Nodes::default(),
            judge: Judge::default(),
            watch: Watch::new(START),
            controllers: Vec::new(),
            refused: Vec::new(),
            levels: Levels::default(),
            verdicts: Vec::new(),
            t: START - 1,
        }
    }

    pub(super) fn id(&mut self, name: &str, context: Option<&str>) -> u64 {
        let label = Label { name, context, direction: crate::format::Direction::In };
        let position = self.nodes.named(label, &mut Changes::default());
        self.nodes.at(position).id
    }

    pub(super) fn circuit(&mut self, name: &str, state: &str) {
        let state = ControllerState::Circuit { state: state.into(), probe_in: None, cause: None };
        self.controllers = vec![Controller {
            resource: name.into(),
            name: None,
            state,
            level: Level::Quiet,
            shadow: None,
        }];
    }

    /// Reads an open circuit breaker in the shadow.
    fn shadow(&mut self, name: &str, enforced_share: f64) {
        self.circuit(name, "open");
        let mode = "requests".into();
        let shadow = ShadowState { mode, enforced_share, would_refuse: 9, would_delay: 0 };
        self.controllers[0].shadow = Some(shadow);
    }

    fn drops(&mut self, name: &str, probability: f64) {
        let state = ControllerState::Drop { probability };
        self.controllers = vec![Controller {
            resource: name.into(),
            name: None,
            state,
            level: Level::Quiet,
            shadow: None,
        }];
    }

    /// Takes the next second, and returns what has changed.
    pub(super) fn next(&mut self, rows: &[Row]) -> Vec<Change> {
        self.t += 1;
        self.judge.read_breakers(&mut self.controllers);
        self.verdicts = self.judge.second(&self.nodes, self.t, rows, &self.refused);
        let mut changes = Vec::new();
        let breakers = (self.judge.breakers(), true);
        self.levels =
            self.watch.second(self.t, &self.nodes, &self.verdicts, breakers, &mut changes);
        changes
    }

    pub(super) fn watch(&mut self) -> &mut Watch {
        &mut self.watch
    }

    /// The findings about the first node in trouble: kind, level, part, whole.
    fn findings(&self) -> Vec<(FindingKind, Level, u64, u64)> {
        let findings = self.verdicts.first().map_or(&[][..], |it| &it.findings);
        findings.iter().map(|it| (it.kind, it.level, it.part, it.whole)).collect()
    }
}

/// A row of these requests, which took a millisecond.
pub(super) fn row(id: u64, success: u64, exception: u64, block: u64) -> Row {
    let ended = success + exception;
    let events =
        [(Pass, ended), (Success, success), (Exception, exception), (Block, block), (Rt, ended)];
    let counts = Counts { events: events.into(), ..timed(1_000_000) };
    Row { id, counts }
}

fn timed(nanos: u64) -> Counts {
    Counts { p99: Some(nanos), ..Counts::default() }
}

#[test]
fn share_of_few_requests_is_no_trouble() {
    for (success, exception, level) in [
        (1, 2, None),
        (48, 2, None),
        (40, 10, Some(Level::Failing)),
        (97, 3, Some(Level::Strained)),
        (1, 3, Some(Level::Strained)),
        (98, 2, None),
    ] {
        let mut seconds = Seconds::new();
        let id = seconds.id("a", None);
        seconds.next(&[row(id, success, exception, 0)]);
        let found = seconds.verdicts.first().map(Verdict::level);
        assert_eq!(found, level, "{exception} of {}", success + exception);
    }
}

/// It refuses nothing, whatever its state is.
#[test]
fn breaker_in_the_shadow_is_no_trouble() {
    let mut seconds = Seconds::new();
    let id = seconds.id("POST /pay", None);
    for (enforced_share, is_trouble) in [(0.0, false), (0.1, true), (0.0, false)] {
        seconds.shadow("POST /pay", enforced_share);
        seconds.next(&[row(id, 5, 0, 0)]);
        assert_eq!(!seconds.verdicts.is_empty(), is_trouble, "{enforced_share}");
    }
}

#[test]
fn level_is_left_only_below_half_of_its_threshold() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    let mut levels = Vec::new();
    for t in 200..260 {
        let failed = if t % 3 == 0 { 1 } else { 2 + u64::from(t % 20 > 9) };
        seconds.next(&[row(id, 100 - failed, failed, 0)]);
        levels.push(seconds.verdicts.first().map_or(Level::Quiet, Verdict::level));
    }
    assert_eq!(levels.windows(2).filter(|it| it[0] != it[1]).count(), 1, "{levels:?}");
    (0..10).for_each(|_| drop(seconds.next(&[row(id, 100, 0, 0)])));
    assert!(seconds.verdicts.is_empty());
}

#[test]
fn shares_are_those_of_the_last_ten_seconds() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    seconds.next(&[row(id, 50, 50, 0)]);
    (0..9).for_each(|_| drop(seconds.next(&[])));
    let failures = FindingKind::Failures;
    assert_eq!(seconds.findings(), [(failures, Level::Failing, 50, 100)]);
    seconds.next(&[]);
    seconds.next(&[row(id, 10, 0, 0)]);
    assert_eq!(seconds.findings(), []);
}

/// Refusals of the node 1.
fn refused(limit_reached: u64, failing: u64) -> RefusedRow {
    let counts = [(Reason::LimitReached, limit_reached), (Reason::Failing, failing)].into();
    RefusedRow { id: 1, counts }
}

#[test]
fn refusals_by_a_breaker_are_in_its_finding_only() {
    let (refusals, drop) = (FindingKind::Refusals, FindingKind::Drop);
    let cases = [
        (0.011, vec![refused(990, 0)], vec![(refusals, Level::Failing), (drop, Level::Strained)]),
        (0.011, vec![], vec![(refusals, Level::Failing), (drop, Level::Strained)]),
        (0.011, vec![refused(0, 990)], vec![(drop, Level::Strained)]),
        (0.99, vec![], vec![(drop, Level::Failing)]),
    ];
    for (probability, refused, expected) in cases {
        let mut seconds = Seconds::new();
        assert_eq!(seconds.id("a", None), 1);
        seconds.drops("a", probability);
        let has_reason = !refused.is_empty();
        seconds.refused = refused;
        seconds.next(&[row(1, 10, 0, 990)]);
        let kinds: Vec<_> = seconds.findings().iter().map(|it| (it.0, it.1)).collect();
        assert_eq!(kinds, expected);
        if let Some(it) = seconds.verdicts[0].findings.iter().find(|it| it.kind == refusals) {
            assert_eq!((it.part, it.whole, it.reason), (990, 1_000, has_reason.then_some(0)));
        }
    }
}

/// The reason is one of the refusals in the finding, and not one of those by a breaker.
#[test]
fn reason_is_that_of_most_of_the_refusals_in_the_finding() {
    let reason = |refused, drops| {
        let mut seconds = Seconds::new();
        seconds.id("a", None);
        if drops {
            seconds.drops("a", 0.5);
        }
        seconds.refused = vec![refused];
        seconds.next(&[row(1, 900, 0, 76)]);
        let findings = &seconds.verdicts[0].findings;
        let finding = findings.iter().find(|it| it.kind == FindingKind::Refusals).unwrap();
        (finding.part, finding.reason)
    };
    assert_eq!(reason(refused(36, 40), true), (36, Some(0)));
    assert_eq!(reason(refused(36, 40), false), (76, Some(3)));
    // Of 76, the reasons of 50 are not known.
    assert_eq!(reason(refused(16, 10), false), (76, None));
}

#[test]
fn breaker_drops_until_it_is_below_half_a_percent() {
    let mut seconds = Seconds::new();
    seconds.id("a", None);
    let mut levels = Vec::new();
    for probability in [0.009, 0.5, 0.011, 0.006, 0.004, 0.009] {
        seconds.drops("a", probability);
        seconds.next(&[]);
        levels.push(seconds.verdicts.first().map_or(Level::Quiet, Verdict::level) as u8);
    }
    assert_eq!(levels, [0, 2, 1, 1, 0, 0]);
}

#[test]
fn response_times_are_compared_with_those_before() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    let events = EventCounts::from([Pass, Success, Rt].map(|event| (event, 100)));
    let timed = |nanos| Counts { events, ..timed(nanos) };
    for _ in 0..50 {
        seconds.next(&[Row { id, counts: timed(1_000_000) }]);
    }
    assert_eq!(seconds.findings(), []);
    for _ in 0..10 {
        seconds.next(&[Row { id, counts: timed(1_000_000_000) }]);
    }
    let expected = (FindingKind::Times, Level::Strained, 1_000_000_000, 1_000_000);
    assert_eq!(seconds.findings(), [expected]);
    // Nine milliseconds more are no trouble.
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    for nanos in [1_000_000; 50].into_iter().chain([10_000_000; 10]) {
        seconds.next(&[Row { id, counts: timed(nanos) }]);
    }
    assert_eq!(seconds.findings(), []);
}

/// A row of requests with this p99, in milliseconds.
fn slow(id: u64, requests: u64, millis: u64) -> Row {
    let events = EventCounts::from([Pass, Success, Rt].map(|event| (event, requests)));
    Row { id, counts: Counts { events, ..timed(millis * 1_000_000) } }
}

#[test]
fn slowdown_lasts_as_long_as_the_response_times_are_longer() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    let mut changes = Vec::new();
    (0..50).for_each(|_| changes.extend(seconds.next(&[slow(id, 100, 1)])));
    (0..600).for_each(|_| changes.extend(seconds.next(&[slow(id, 100, 1_000)])));
    let expected = (FindingKind::Times, Level::Strained, 1_000_000_000, 1_000_000);
    assert_eq!(seconds.findings(), [expected], "ten minutes later");
    assert_eq!(changes.len(), 1, "{changes:?}");
    (0..30).for_each(|_| changes.extend(seconds.next(&[slow(id, 100, 1)])));
    assert_eq!((seconds.findings(), changes.len()), (vec![], 2));
    // The baseline is free again: what it was before is forgotten.
    (0..60).for_each(|_| drop(seconds.next(&[slow(id, 100, 8)])));
    (0..20).for_each(|_| drop(seconds.next(&[slow(id, 100, 100)])));
    assert_eq!(seconds.findings(), [(FindingKind::Times, Level::Strained, 100_000_000, 8_000_000)]);
}

#[test]
fn slowdown_with_a_pause_is_compared_with_the_time_before_it() {
    let mut seconds = Seconds::new();
    let id = seconds.id("a", None);
    (0..50).for_each(|_| drop(seconds.next(&[slow(id, 100, 1)])));
    (0..50).for_each(|_| drop(seconds.next(&[slow(id, 100, 1_000)])));
    let expected = (FindingKind::Times, Level::Strained, 1_000_000_000, 1_000_000);
    for (pause, requests) in [(30, 0), (20, 3)] {
        let row = slow(id, requests, 1_000);
        let rows = if requests == 0 { &[][..] } else { std::slice::from_ref(&row) };
        (0..pause).for_each(|_| drop(seconds.next(rows)));
        assert_eq!(seconds.findings(), [], "too few requests to tell");
        (0..20).for_each(|_| drop(seconds.next(&[slow(id, 100, 1_000)])));
        assert_eq!(seconds.findings(), [expected]);
    }
}

#[test]
fn breakers_of_a_name_are_told_apart_by_their_index() {
    let mut seconds = Seconds::new();
    seconds.id("a", None);
    let circuit = |name: &str, state: &str| {
        let state = ControllerState::Circuit { state: state.into(), probe_in: None, cause: None };
        Controller { resource: name.into(), name: None, state, level: Level::Quiet, shadow: None }
    };
    let drops = |name: &str, probability| {
        let state = ControllerState::Drop { probability };
        Controller { resource: name.into(), name: None, state, level: Level::Quiet, shadow: None }
    };
    let read = |seconds: &mut Seconds, controllers| {
        seconds.controllers = controllers;
        seconds.next(&[]);
        let findings = seconds.findings();
        findings.iter().map(|it| (it.0, it.1, it.2)).collect::<Vec<_>>()
    };
    let (kind, of_drop) = (FindingKind::Circuit, FindingKind::Drop);
    let first = vec![
        circuit("a", "closed"),
        circuit("b", "open"),
        drops("a", 0.011),
        circuit("a", "half-open"),
        drops("a", 0.006),
        circuit("a", "open"),
    ];
    let expected =
        [(kind, Level::Failing, 2), (of_drop, Level::Strained, 0), (kind, Level::Strained, 1)];
    assert_eq!(read(&mut seconds, first), expected);
    // Only the first one has dropped before: below 1 %, the others do not.
    let second = vec![drops("a", 0.006), drops("b", 0.006), drops("a", 0.006)];
    assert_eq!(read(&mut seconds, second), [(of_drop, Level::Strained, 0)]);
}

#[test]
fn resource_has_the_worst_level_of_its_contexts() {
    let mut seconds = Seconds::new();
    let (a, b, web) = (seconds.id("a", None), seconds.id("b", None), seconds.id("b", Some("web")));
    assert_eq!(seconds.nodes.families(), 2);
    seconds.next(&[row(a, 900, 0, 0), row(b, 5, 0, 0), row(web, 5, 0, 50)]);
    assert_eq!((seconds.levels.failing, seconds.levels.strained), (1, 0));
    assert_eq!(seconds.verdicts.iter().map(|it| it.id).collect::<Vec<_>>(), [web]);
    seconds.circuit("later", "open");
    seconds.next(&[]);
    assert_eq!(seconds.levels.failing, 2, "a breaker without a resource is one");
}
