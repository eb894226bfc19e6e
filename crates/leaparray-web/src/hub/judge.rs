//! The rule: which nodes are in trouble, and why. It judges each second once, from the rows of the
//! stream. The page only puts the findings into words.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use leaparray::EventCounts;
use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, Rt, Success};
use leaparray::flow::Reason;
use leaparray::node::Refusals;

use super::HISTORY;
use super::nodes::Nodes;
use super::rule::{
    BEFORE, DROPS, ENOUGH_FOR_P99, FAILURES, FEW, LONGER, RECENT, REFUSALS, SLOWER, SOME,
};
use crate::format::{
    Controller, ControllerState, Counts, Finding, FindingKind, Level, RefusedRow, Row, Verdict,
};

/// The response times of a node are compared in every fifth second, which costs more than the rest.
const LATENCY_EVERY: u64 = 5;
/// Nanoseconds of a millisecond.
const MILLI: f64 = 1e6;
#[expect(clippy::cast_possible_truncation, reason = "a few seconds")]
const RING: usize = RECENT as usize;
const MINUTE: usize = HISTORY as usize;

/// The levels that are held: a level is left only below the half of its threshold.
#[derive(Clone, Copy, Default)]
struct Held {
    failures: Level,
    refusals: Level,
}

/// What is known of a node that had a row in the last minute.
struct State {
    /// The second up to which the rings are valid.
    t: u64,
    last_row: u64,
    seconds: [EventCounts; RING],
    /// The refused requests by reason: created with the first one.
    refused: Option<Box<[Refusals; RING]>>,
    /// p99 in nanoseconds; NaN for a second with too few response times.
    p99: [f32; MINUTE],
    held: Held,
    /// While the node is slow, the p99 from before it became slow. The slow seconds are not in it,
    /// however long they last.
    baseline: Option<f64>,
    slow: Option<Finding>,
    compared_at: u64,
}

/// A breaker, with its state in the newest second.
#[derive(Clone)]
pub(super) struct Breaker {
    pub(super) name: Box<str>,
    pub(super) kind: FindingKind,
    /// Its index among those of its kind with its name.
    pub(super) index: u64,
    pub(super) state: String,
    pub(super) cause: Option<String>,
    pub(super) level: Level,
}

/// Judges the nodes, second by second.
#[derive(Default)]
pub(super) struct Judge {
    states: HashMap<u64, State, RandomState>,
    breakers: Vec<Breaker>,
}

impl Judge {
    /// The breakers as they were last read.
    pub(super) fn breakers(&self) -> &[Breaker] {
        &self.breakers
    }

    /// Reads the states of the breakers, and sets their levels.
    pub(super) fn read_breakers(&mut self, controllers: &mut [Controller]) {
        let before = std::mem::take(&mut self.breakers);
        let before: HashMap<_, _, RandomState> = before.iter().map(|it| (it.key(), it)).collect();
        let mut counts: HashMap<_, u64, RandomState> = HashMap::default();
        for Controller { resource, state, level: of_controller, shadow, .. } in controllers {
            let kind = match state {
                ControllerState::Circuit { .. } => FindingKind::Circuit,
                ControllerState::Drop { .. } => FindingKind::Drop,
                _ => continue,
            };
            let name: &str = resource;
            let count = counts.entry((name, kind)).or_default();
            let index = *count;
            *count += 1;
            // A breaker that refuses nothing means nothing for its resource.
            if shadow.as_ref().is_some_and(|it| it.enforced_share == 0.0) {
                continue;
            }
            let known = before.get(&(name, kind, index)).copied();
            let (state, cause, level) = read_breaker(state, known);
            *of_controller = level;
            self.breakers.push(Breaker { name: name.into(), kind, index, state, cause, level });
        }
    }

    /// Takes the rows of a second, which follows those that were taken before. Returns the verdicts
    /// about the nodes in trouble, by ascending id.
    pub(super) fn second(
        &mut self,
        nodes: &Nodes,
        t: u64,
        rows: &[Row],
        refused: &[RefusedRow],
    ) -> Vec<Verdict> {
        for row in rows {
            self.state(row.id, t).store(&row.counts);
        }
        for row in refused {
            self.state(row.id, t).store_refused(row);
        }
        self.states.retain(|_, it| t.saturating_sub(it.last_row) < u64::from(HISTORY));
        let of_breakers = self.findings_of_breakers(nodes);
        let mut verdicts = Vec::new();
        for (&id, state) in &mut self.states {
            state.advance(t);
            let breakers = of_breakers.get(&id).map_or(&[][..], |it| it);
            let findings = state.judge(id, breakers);
            if !findings.is_empty() {
                verdicts.push(Verdict { id, findings });
            }
        }
        let without_rows = of_breakers.into_iter().filter(|(id, _)| !self.states.contains_key(id));
        verdicts.extend(without_rows.map(|(id, findings)| Verdict { id, findings }));
        verdicts.sort_unstable_by_key(|it| it.id);
        verdicts
    }

    fn state(&mut self, id: u64, t: u64) -> &mut State {
        let state = self.states.entry(id).or_insert_with(|| State::new(id, t));
        state.advance(t);
        state
    }

    /// The findings about breakers by the ids of the resources with their names, the worst one
    /// first.
    fn findings_of_breakers(&self, nodes: &Nodes) -> HashMap<u64, Vec<Finding>, RandomState> {
        let mut found: HashMap<u64, Vec<Finding>, RandomState> = HashMap::default();
        for breaker in self.breakers.iter().filter(|it| it.level > Level::Quiet) {
            for id in nodes.resources_named(&breaker.name) {
                found.entry(id).or_default().push(breaker.finding());
            }
        }
        for findings in found.values_mut() {
            sort(findings);
        }
        found
    }
}

impl Breaker {
    const fn key(&self) -> (&str, FindingKind, u64) {
        (&self.name, self.kind, self.index)
    }

    pub(super) fn finding(&self) -> Finding {
        let Self { kind, index, level, .. } = *self;
        Finding { kind, level, part: index, whole: 0, reason: None }
    }
}

/// Returns the state of a breaker in one word, the cause of its last change, and its level.
fn read_breaker(
    state: &ControllerState,
    before: Option<&Breaker>,
) -> (String, Option<String>, Level) {
    match state {
        ControllerState::Circuit { state, cause, .. } => {
            let level = match state.as_str() {
                "open" => Level::Failing,
                it if it.starts_with("half") => Level::Strained,
                _ => Level::Quiet,
            };
            (state.clone(), cause.clone(), level)
        }
        ControllerState::Drop { probability } => {
            // Strained until it is below the half of that threshold.
            let factor = if before.is_some_and(|it| it.level > Level::Quiet) { 0.5 } else { 1.0 };
            let level = match 100.0 * probability {
                it if it >= DROPS[1] => Level::Failing,
                it if it >= DROPS[0] * factor => Level::Strained,
                _ => Level::Quiet,
            };
            let word = if level == Level::Quiet { "passes" } else { "drops" };
            (word.to_owned(), None, level)
        }
        _ => (String::new(), None, Level::Quiet),
    }
}

impl State {
    fn new(id: u64, t: u64) -> Self {
        Self {
            t,
            last_row: t,
            seconds: [EventCounts::default(); RING],
            refused: None,
            p99: [f32::NAN; MINUTE],
            held: Held::default(),
            baseline: None,
            slow: None,
            // Not all nodes in the same second.
            compared_at: t.saturating_sub(id % LATENCY_EVERY),
        }
    }

    /// Empties the places of the seconds up to `t` that are new.
    fn advance(&mut self, t: u64) {
        let new = t.saturating_sub(self.t).min(HISTORY.into());
        for second in t + 1 - new..=t {
            self.seconds[slot(second, RING)] = EventCounts::default();
            self.p99[slot(second, MINUTE)] = f32::NAN;
            if let Some(refused) = &mut self.refused {
                refused[slot(second, RING)] = Refusals::default();
            }
        }
        self.t = self.t.max(t);
    }

    fn store(&mut self, counts: &Counts) {
        self.seconds[slot(self.t, RING)] = counts.events;
        if let Some(p99) = counts.p99.filter(|_| counts.events[Rt] >= FEW / 2) {
            #[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
            let p99 = p99 as f32;
            self.p99[slot(self.t, MINUTE)] = p99;
        }
        self.last_row = self.t;
    }

    fn store_refused(&mut self, row: &RefusedRow) {
        self.refused.get_or_insert_default()[slot(self.t, RING)] = row.counts;
    }

    /// Returns the findings about a node in the newest second, the worst one first.
    fn judge(&mut self, id: u64, breakers: &[Finding]) -> Vec<Finding> {
        if self.t.saturating_sub(self.last_row) >= RECENT {
            self.held = Held::default();
            self.slow = None;
            self.compared_at = self.t.saturating_sub(id % LATENCY_EVERY);
            return breakers.to_vec();
        }
        if self.t.saturating_sub(self.compared_at) >= LATENCY_EVERY {
            self.slow = self.compare_times();
            self.compared_at = self.t;
        }
        let sums = self.sums();
        let findings = [
            judge_failures(&sums, &mut self.held.failures),
            self.judge_refusals(&sums, breakers),
            self.slow,
        ];
        let mut all: Vec<_> = findings.into_iter().flatten().collect();
        if !breakers.is_empty() {
            all.splice(0..0, breakers.iter().copied());
        }
        sort(&mut all);
        all
    }

    fn sums(&self) -> EventCounts {
        let mut sums = EventCounts::default();
        self.seconds.iter().for_each(|second| sums += second);
        sums
    }

    fn judge_refusals(&mut self, sums: &EventCounts, breakers: &[Finding]) -> Option<Finding> {
        let held = &mut self.held.refusals;
        if sums[Block] == 0 {
            *held = Level::Quiet;
            return None;
        }
        let mut reasons = Refusals::default();
        self.refused.iter().flat_map(|it| it.iter()).for_each(|second| reasons += second);
        // Those of a breaker are in the finding about the breaker: those of its reason, and if it
        // lets little through, those of no known reason.
        let mut refused = sums[Block];
        let mut unknown = refused.saturating_sub(reasons.sum());
        if let Some(breaker) = breakers.first() {
            refused = refused.saturating_sub(std::mem::take(&mut reasons[Reason::Failing]));
            if breaker.level == Level::Failing {
                refused = refused.saturating_sub(std::mem::take(&mut unknown));
            }
        }
        let calls = refused.saturating_add(sums[Pass]);
        let half = 1 + u64::from(*held > Level::Quiet);
        let is_enough = calls.saturating_mul(half) >= FEW && refused.saturating_mul(half) >= SOME;
        *held = if is_enough { level_of(refused, calls, REFUSALS, *held) } else { Level::Quiet };
        // The reason of most of the refusals in the finding, if that is known.
        let counts = || reasons.iter().map(|(_, count)| count);
        let most = counts().max().filter(|it| *it > 0 && *it >= unknown);
        let reason = (0..).zip(counts()).find(|(_, count)| Some(*count) == most);
        finding(FindingKind::Refusals, *held, refused, calls)
            .map(|it| Finding { reason: reason.map(|(index, _)| index), ..it })
    }

    /// Compares p99 of the last 10 s with that of the 45 s before; while the node is slow, with
    /// that from before it became slow. With too few response times to compare, it is not known
    /// whether the node is still slow: there is no finding, and the baseline stays.
    fn compare_times(&mut self) -> Option<Finding> {
        let is_held = self.baseline.is_some();
        let half = 1 + u64::from(is_held);
        if self.sums()[Rt].saturating_mul(half) < ENOUGH_FOR_P99 {
            return None;
        }
        let recent = self.median(0..RECENT)?;
        let before = self.baseline.or_else(|| self.median(BEFORE..HISTORY.into()))?;
        let factor = if is_held { 0.5 } else { 1.0 };
        let is_slow =
            recent >= SLOWER * factor * before && recent - before >= LONGER * MILLI * factor;
        self.baseline = is_slow.then_some(before);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let (recent, before) = (recent as u64, before as u64);
        is_slow.then_some(())?;
        finding(FindingKind::Times, Level::Strained, recent, before)
    }

    /// Returns the median of p99 of the seconds with these ages; `None` for fewer than five.
    fn median(&self, ages: std::ops::Range<u64>) -> Option<f64> {
        let times = ages.filter_map(|age| Some(self.p99[slot(self.t.checked_sub(age)?, MINUTE)]));
        let mut times: Vec<f32> = times.filter(|it| it.is_finite()).collect();
        times.sort_unstable_by(f32::total_cmp);
        (times.len() >= 5).then(|| f64::from(times[times.len() / 2]))
    }
}

fn judge_failures(sums: &EventCounts, held: &mut Level) -> Option<Finding> {
    let failed = sums[Exception];
    let ended = failed.saturating_add(sums[Success]).saturating_add(sums[Cancelled]);
    let half = 1 + u64::from(*held > Level::Quiet);
    *held = if failed.saturating_mul(half) < SOME {
        Level::Quiet
    } else if ended.saturating_mul(half) >= FEW {
        level_of(failed, ended, FAILURES, *held)
    } else if failed.saturating_mul(2 * half) >= ended {
        Level::Strained
    } else {
        Level::Quiet
    };
    finding(FindingKind::Failures, *held, failed, ended)
}

/// Puts the worst finding first. Among those of a level, the order stays.
fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|it| std::cmp::Reverse(it.level));
}

fn finding(kind: FindingKind, level: Level, part: u64, whole: u64) -> Option<Finding> {
    (level > Level::Quiet).then_some(Finding { kind, level, part, whole, reason: None })
}

/// Returns the level of a share by the thresholds of `Strained` and `Failing`, in percent.
fn level_of(part: u64, whole: u64, thresholds: [f64; 2], held: Level) -> Level {
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
    let share = 100.0 * part as f64 / whole as f64;
    let levels = [Level::Failing, Level::Strained].into_iter().zip(thresholds.into_iter().rev());
    let mut reached = levels
        .filter(|(level, threshold)| share >= threshold * if held >= *level { 0.5 } else { 1.0 });
    reached.next().map_or(Level::Quiet, |(level, _)| level)
}

fn slot(second: u64, length: usize) -> usize {
    usize::try_from(second % length as u64).unwrap_or_default()
}
