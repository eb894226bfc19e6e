//! The windows of the fleet, and their audit: they have the requests that the clients have counted.
//!
//! Each answer names the process that has given it, and two times of that process's clock between
//! which the request was decided. So the clients know how many requests a process has admitted and
//! refused, and for each second between which numbers these were in it.
//!
//! - A process that was closed has delivered all its requests. Those that a thread has recorded
//!   late are in no second, and are named.
//! - A process that was killed has delivered its requests up to a second. Those of later seconds
//!   are missing. Requests that were sent to it and not answered may be in its seconds, or not.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::ops::{Range, RangeInclusive};

use leaparray::EventCounts;
use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, Rt, Success};
use leaparray_redis::fleet::{FleetConfig, FleetConfigError, FleetView};
use leaparray_redis::fleet::{ProcessId, Record};
use leaparray_redis::{FleetReader, RedisEngine};

use crate::notes::Use;
use crate::report::Report;

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// How many requests of a process may be late: those of its threads that have stalled, and a
/// hundredth of all.
const MAX_LATE: u64 = 20;

/// Returns the settings of the windows. The run is short, so a killed process counts as lost after
/// three seconds; and all clocks are those of one machine.
pub(crate) fn config() -> Result<FleetConfig, FleetConfigError> {
    FleetConfig::default().with_lost_after(3)?.with_grace(1)
}

/// Starts a reader of the windows.
pub(crate) fn reader(fleet: &str, engine: RedisEngine) -> Result<FleetReader, Box<dyn Error>> {
    Ok(FleetReader::builder(fleet).with_config(config()?).start(engine)?)
}

/// Numbers of admitted and of refused requests.
pub(crate) type Counts = [u64; 2];

/// The names of the numbers of [`Counts`].
const KINDS: [&str; 2] = ["admitted", "refused"];

/// The answers of a process, as the clients have counted them, by the seconds of the earliest and
/// the latest time of the decision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(BTreeMap<(u64, u64), Counts>);

impl Answers {
    /// Adds an answer whose request was decided between two times.
    pub(crate) fn note(&mut self, decided: Use, is_admitted: bool) {
        let seconds = (decided.earliest / SECOND, decided.latest / SECOND);
        self.0.entry(seconds).or_default()[usize::from(!is_admitted)] += 1;
    }

    fn total(&self) -> Counts {
        self.sum(|_, _| true)
    }

    /// Returns the requests that were certainly decided in these seconds.
    fn certain(&self, seconds: &Range<u64>) -> Counts {
        self.sum(|first, last| seconds.start <= first && last < seconds.end)
    }

    /// Returns the requests that may have been decided in these seconds.
    fn possible(&self, seconds: &Range<u64>) -> Counts {
        self.sum(|first, last| first < seconds.end && seconds.start <= last)
    }

    fn sum(&self, which: impl Fn(u64, u64) -> bool) -> Counts {
        let counts = self.0.iter().filter(|((first, last), _)| which(*first, *last));
        counts.fold([0; 2], |sum, (_, it)| [sum[0] + it[0], sum[1] + it[1]])
    }
}

/// A process of the fleet, as the windows have it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: ProcessId,
    pub(crate) record: Record,
    /// The seconds that the reader has; `None` for those of which it has nothing from this process.
    pub(crate) seconds: BTreeMap<u64, Option<Counts>>,
}

/// How a process has ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ending {
    pub(crate) name: String,
    pub(crate) is_killed: bool,
}

/// The windows at the end of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows<'a> {
    pub(crate) members: &'a [Member],
    /// The sum of all records, as the view tells it.
    pub(crate) sum: &'a Record,
    /// The processes whose records are on the server.
    pub(crate) stored: &'a BTreeSet<ProcessId>,
}

/// Returns the processes of a view, by name, with the seconds that it has.
pub(crate) fn members(view: &FleetView) -> Vec<Member> {
    let of = |(id, record, _): (ProcessId, &Record, _)| {
        let seconds = (record.first..record.next).filter_map(|second| {
            let processes = view.window(second..second + 1).processes;
            let row = processes.into_iter().find(|it| it.id == id)?;
            let counts = [row.counts.metrics.counts[Pass], row.counts.metrics.counts[Block]];
            Some((second, (row.present == 1).then_some(counts)))
        });
        Member { id, record: record.clone(), seconds: seconds.collect() }
    };
    let mut members: Vec<Member> = view.processes().map(of).collect();
    members.sort_by(|one, other| {
        (&one.record.name, one.record.first).cmp(&(&other.record.name, other.record.first))
    });
    members
}

/// Compares the windows with the answers that the clients have got. `lost`: the requests without an
/// answer, because their process was killed.
pub(crate) fn audit(
    windows: &Windows<'_>,
    answers: &BTreeMap<ProcessId, Answers>,
    lost: u64,
    endings: &[Ending],
) -> Report {
    let mut report = Report {
        text: "\naudit of the windows of the fleet, by the clocks of its processes\n\n".to_owned(),
        failures: check_members(windows, answers, endings),
    };
    let none = Answers::default();
    for member in windows.members {
        let of_process = answers.get(&member.id).unwrap_or(&none);
        // Only a process that was killed has lost requests.
        let lost = if member.record.has_left { 0 } else { lost };
        check_seconds(member, of_process, lost, &mut report.failures);
        let [late, all] = [&member.record.late, &member.record.lifetime].map(counts_of);
        let [late, all] = [late, all].map(|it| it[0] + it[1]);
        if late > MAX_LATE + all / 100 {
            report
                .failures
                .push(format!("{late} of {all} requests of {} are late", member.record.name));
        }
        // The server was away for a moment only.
        if member.record.missed.0 > 0 {
            let Record { name, missed, .. } = &member.record;
            report.failures.push(format!("{name} has missed {} seconds", missed.0));
        }
        if member.record.has_left {
            check_closed(member, of_process, &mut report);
        } else {
            check_killed(member, of_process, lost, &mut report);
        }
        if !windows.stored.contains(&member.id) {
            let _ = writeln!(
                report.text,
                "                 the server has lost its record: the reader has read it before"
            );
        }
    }
    check_sum(windows, &mut report);
    if report.failures.is_empty() {
        report.text += "the windows have all requests except the ones named above\n";
    }
    report
}

/// Finds processes that are missing, or that should not be there.
fn check_members(
    windows: &Windows<'_>,
    answers: &BTreeMap<ProcessId, Answers>,
    endings: &[Ending],
) -> Vec<String> {
    let is = |it: &Member| Ending { name: it.record.name.clone(), is_killed: !it.record.has_left };
    let mut found: Vec<Ending> = windows.members.iter().map(is).collect();
    let mut expected = endings.to_vec();
    found.sort();
    expected.sort();
    let list = |endings: &[Ending]| {
        let ending = |it: &Ending| {
            format!("{} ({})", it.name, ["closed", "killed"][usize::from(it.is_killed)])
        };
        endings.iter().map(ending).collect::<Vec<_>>().join(", ")
    };
    let mut failures = Vec::new();
    if found != expected {
        failures.push(format!(
            "the fleet has the processes {}, and these have run: {}",
            list(&found),
            list(&expected)
        ));
    }
    let known: BTreeSet<ProcessId> = windows.members.iter().map(|it| it.id).collect();
    for (process, it) in answers.iter().filter(|it| !known.contains(it.0)) {
        let [admitted, refused] = it.total();
        failures.push(format!(
            "process {process} is not in the fleet, and has admitted {admitted} and refused {refused}"
        ));
    }
    failures
}

/// Compares the seconds that the reader has with the answers, and with the record. `lost`: the
/// requests of the process without an answer, which may be in its seconds.
fn check_seconds(member: &Member, answers: &Answers, lost: u64, failures: &mut Vec<String>) {
    let Record { name, first, delivered, late, .. } = &member.record;
    let (delivered, late) = (counts_of(&delivered.1), counts_of(late));
    for kind in 0..2 {
        let (what, mut rest, mut unread) = (KINDS[kind], delivered[kind], 0..=0);
        for (&second, counts) in &member.seconds {
            let seconds = second..second + 1;
            let certain = answers.certain(&seconds)[kind].saturating_sub(late[kind]);
            let counted = certain..=answers.possible(&seconds)[kind] + lost;
            let Some(counts) = counts else {
                unread = unread.start() + counted.start()..=unread.end() + counted.end();
                continue;
            };
            rest = rest.saturating_sub(counts[kind]);
            if !counted.contains(&counts[kind]) {
                failures.push(format!(
                    "second {second} of {name} has {} {what} requests, and the clients have counted {}",
                    counts[kind],
                    from_to(&counted)
                ));
            }
        }
        // In a longer run, the reader has forgotten the first seconds.
        let has_all = member.seconds.keys().next() == Some(first);
        if has_all && !unread.contains(&rest) {
            failures.push(format!(
                "{name} has delivered {} {what} requests, of which {rest} are in no second that was read, and the clients have counted {} in the others",
                delivered[kind],
                from_to(&unread)
            ));
        }
    }
}

/// A process that was closed has delivered what it has answered.
fn check_closed(member: &Member, answers: &Answers, report: &mut Report) {
    let Record { name, delivered, missed, late, waiting, lifetime, .. } = &member.record;
    let [admitted, refused] = answers.total();
    let _ = writeln!(
        report.text,
        "{name:16} closed: admitted {} of {admitted}, refused {} of {refused}, in {} seconds{}{}",
        lifetime[Pass],
        lifetime[Block],
        delivered.0,
        part("missed", &missed.1),
        part("late", late),
    );
    for (what, has, counted) in [
        ("admitted", lifetime[Pass], admitted),
        ("refused", lifetime[Block], refused),
        ("successful", lifetime[Success], admitted),
        ("timed", lifetime[Rt], admitted),
        ("failed", lifetime[Exception], 0),
        ("cancelled", lifetime[Cancelled], 0),
    ] {
        if has != counted {
            report.failures.push(format!(
                "the record of {name} has {has} {what} requests, and the clients have counted {counted}"
            ));
        }
    }
    if sum_of([&delivered.1, &missed.1, late]) != *lifetime || !waiting.is_zero() {
        report.failures.push(format!(
            "the requests of {name} are not all delivered, missed or late: {:?}",
            member.record
        ));
    }
}

/// A process that was killed has delivered what it has answered before the first second that it has
/// not delivered.
fn check_killed(member: &Member, answers: &Answers, lost: u64, report: &mut Report) {
    let Record { name, delivered, missed, late, next, .. } = &member.record;
    let received = counts_of(&sum_of([&delivered.1, &missed.1, late]));
    let total = answers.total();
    let (certain, possible) = (answers.certain(&(0..*next)), answers.possible(&(0..*next)));
    let _ = writeln!(
        report.text,
        "{name:16} killed: admitted {} of {}, refused {} of {}, in {} seconds; {lost} requests were lost{}{}",
        received[0],
        total[0],
        received[1],
        total[1],
        delivered.0,
        part("missed", &missed.1),
        part("late", late),
    );
    let missing: u64 = (0..2).map(|it| total[it].saturating_sub(received[it])).sum();
    let _ = writeln!(
        report.text,
        "                 not delivered by {name}: {missing} requests of its last seconds"
    );
    let mut check = |what: &str, received: u64, counted: RangeInclusive<u64>| {
        if !counted.contains(&received) {
            report.failures.push(format!(
                "{name} has delivered {received} {what} requests before second {next}, and the clients have counted {}",
                from_to(&counted)
            ));
        }
    };
    for (kind, what) in KINDS.into_iter().enumerate() {
        check(what, received[kind], certain[kind]..=possible[kind] + lost);
    }
    let [received, certain, possible] = [received, certain, possible].map(|it| it[0] + it[1]);
    check("admitted or refused", received, certain..=possible + lost);
}

/// The sum of the fleet equals the sum of its processes.
fn check_sum(windows: &Windows<'_>, report: &mut Report) {
    let Record { delivered, missed, late, waiting, lifetime, .. } = windows.sum;
    let _ = writeln!(
        report.text,
        "fleet            admitted {}, refused {}, in {} seconds of {} processes",
        delivered.1[Pass],
        delivered.1[Block],
        delivered.0,
        windows.members.len()
    );
    let records = || windows.members.iter().map(|it| &it.record);
    for (what, sum, of_processes) in [
        ("delivered", &delivered.1, sum_of(records().map(|it| &it.delivered.1))),
        ("missed", &missed.1, sum_of(records().map(|it| &it.missed.1))),
        ("late", late, sum_of(records().map(|it| &it.late))),
        ("waiting", waiting, sum_of(records().map(|it| &it.waiting))),
        ("lifetime", lifetime, sum_of(records().map(|it| &it.lifetime))),
    ] {
        if *sum != of_processes {
            report.failures.push(format!(
                "{what} of the fleet is {sum:?}, and the sum of its processes is {of_processes:?}"
            ));
        }
    }
}

fn from_to(counts: &RangeInclusive<u64>) -> String {
    let (min, max) = (counts.start(), counts.end());
    if min == max { min.to_string() } else { format!("{min} to {max}") }
}

fn part(name: &str, totals: &EventCounts) -> String {
    let [admitted, refused] = counts_of(totals);
    if totals.is_zero() { String::new() } else { format!(", {name} {admitted} + {refused}") }
}

fn counts_of(totals: &EventCounts) -> Counts {
    [totals[Pass], totals[Block]]
}

fn sum_of<'a>(totals: impl IntoIterator<Item = &'a EventCounts>) -> EventCounts {
    let mut sum = EventCounts::default();
    for it in totals {
        sum += it;
    }
    sum
}
