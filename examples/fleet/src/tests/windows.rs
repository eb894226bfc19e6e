//! Tests of the audit of the windows.

use std::collections::{BTreeMap, BTreeSet};

use leaparray::EventCounts;
use leaparray::MetricEvent::{Block, Cancelled, Pass, Rt, Success};
use leaparray_redis::fleet::{ProcessId, Record};

use crate::notes::Use;
use crate::windows::{Answers, Counts, Ending, Member, Windows, audit};

/// Microseconds of a second.
const S: u64 = 1_000_000;

/// A run, as it should end.
struct Run {
    members: Vec<Member>,
    /// Instead of the sum of the members.
    sum: Option<Record>,
    stored: BTreeSet<ProcessId>,
    answers: BTreeMap<ProcessId, Answers>,
    lost: u64,
    endings: Vec<Ending>,
}

fn totals([admitted, refused]: Counts) -> EventCounts {
    EventCounts::from([(Pass, admitted), (Success, admitted), (Rt, admitted), (Block, refused)])
}

/// A process that has delivered these seconds from 100 on.
fn member(id: u64, name: &str, seconds: &[Counts], has_left: bool) -> Member {
    let numbered = || (100..).zip(seconds.iter().copied());
    let mut record = Record::default();
    (record.name, record.has_left) = (name.into(), has_left);
    (record.first, record.next) = (100, 100 + seconds.len() as u64);
    record.delivered.0 = seconds.len() as u64;
    for (_, counts) in numbered() {
        record.delivered.1 += &totals(counts);
    }
    record.lifetime = record.delivered.1;
    let seconds = numbered().map(|(second, counts)| (second, Some(counts))).collect();
    Member { id: ProcessId(id), record, seconds }
}

fn note(answers: &mut Answers, second: u64, [admitted, refused]: Counts) {
    let decided = Use { earliest: second * S + 5, latest: second * S + 9 };
    (0..admitted).for_each(|_| answers.note(decided, true));
    (0..refused).for_each(|_| answers.note(decided, false));
}

impl Run {
    /// Process 1 was closed. Process 2 was killed in second 102, of which it has delivered nothing.
    fn good() -> Self {
        let members = vec![
            member(1, "service-1", &[[3, 4], [5, 6], [7, 8]], true),
            member(2, "service-2", &[[2, 1], [4, 3]], false),
        ];
        let mut answers = BTreeMap::<ProcessId, Answers>::new();
        for member in &members {
            for (second, counts) in &member.seconds {
                note(answers.entry(member.id).or_default(), *second, counts.unwrap_or_default());
            }
        }
        note(answers.entry(ProcessId(2)).or_default(), 102, [6, 5]);
        let ending = |name: &str, is_killed| Ending { name: name.into(), is_killed };
        Self {
            stored: members.iter().map(|it| it.id).collect(),
            members,
            sum: None,
            answers,
            lost: 0,
            endings: vec![ending("service-2", true), ending("service-1", false)],
        }
    }

    fn audit(&self) -> (String, Vec<String>) {
        let mut sum = Record::default();
        for Record { delivered, late, lifetime, .. } in self.members.iter().map(|it| &it.record) {
            sum.delivered.0 += delivered.0;
            sum.delivered.1 += &delivered.1;
            sum.late += late;
            sum.lifetime += lifetime;
        }
        let windows = Windows {
            members: &self.members,
            sum: self.sum.as_ref().unwrap_or(&sum),
            stored: &self.stored,
        };
        let report = audit(&windows, &self.answers, self.lost, &self.endings);
        assert_eq!(report.failures.is_empty(), report.text.contains("have all requests"));
        (report.text, report.failures)
    }

    /// Asserts that the audit fails, and that a failure has this text.
    #[track_caller]
    fn assert_failure(&self, text: &str) {
        let failures = self.audit().1;
        assert!(failures.iter().any(|it| it.contains(text)), "{failures:?}");
    }

    fn answers(&mut self, process: u64) -> &mut Answers {
        self.answers.get_mut(&ProcessId(process)).unwrap()
    }
}

#[test]
fn report_names_what_a_killed_process_has_not_delivered() {
    assert_eq!(
        Run::good().audit(),
        (
            "
audit of the windows of the fleet, by the clocks of its processes

service-1        closed: admitted 15 of 15, refused 18 of 18, in 3 seconds
service-2        killed: admitted 6 of 12, refused 4 of 9, in 2 seconds; 0 requests were lost
                 not delivered by service-2: 11 requests of its last seconds
fleet            admitted 21, refused 22, in 5 seconds of 2 processes
the windows have all requests except the ones named above
"
            .into(),
            vec![]
        )
    );
}

#[test]
fn record_that_the_server_has_lost_is_named() {
    let mut run = Run::good();
    run.stored.remove(&ProcessId(2));
    let (text, failures) = run.audit();
    assert!(text.contains("the server has lost its record"), "{text}");
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn answer_of_a_closed_process_that_was_counted_twice_fails() {
    for counts in [[1, 0], [0, 1]] {
        let mut run = Run::good();
        note(run.answers(1), 101, counts);
        run.assert_failure("the record of service-1 has 1");
        run.assert_failure("second 101 of service-1 has");
    }
}

#[test]
fn answer_of_a_killed_process_that_was_counted_twice_fails_before_its_last_seconds() {
    for counts in [[1, 0], [0, 1]] {
        let mut run = Run::good();
        note(run.answers(2), 101, counts);
        run.assert_failure("requests before second 102, and the clients have counted");
        let mut run = Run::good();
        note(run.answers(2), 102, counts);
        assert!(run.audit().1.is_empty(), "it was not delivered");
    }
}

#[test]
fn request_that_no_client_has_counted_fails() {
    for process in [0, 1] {
        for counts in [[1, 0], [0, 1]] {
            let mut run = Run::good();
            let member = &mut run.members[process];
            for part in [&mut member.record.delivered.1, &mut member.record.lifetime] {
                *part += &totals(counts);
            }
            let second = member.seconds.get_mut(&100).unwrap().as_mut().unwrap();
            *second = [second[0] + counts[0], second[1] + counts[1]];
            run.assert_failure("second 100 of");
            run.assert_failure(["the record of service-1 has", "before second 102"][process]);
            // It may be a lost one of the process that was killed, but not of another one.
            run.lost = 1;
            assert_eq!(run.audit().1.is_empty(), process == 1);
        }
    }
}

#[test]
fn second_that_was_skipped_fails() {
    let mut run = Run::good();
    run.members[0].seconds.insert(101, Some([0, 0]));
    run.assert_failure(
        "second 101 of service-1 has 0 admitted requests, and the clients have counted 5",
    );
    run.assert_failure("of which 5 are in no second that was read, and the clients have counted 0");
    // A second that was not read has as many requests as the clients have counted.
    run.members[0].seconds.insert(101, None);
    assert_eq!(run.audit().1, Vec::<String>::new());
    run.members[0].record.delivered.1[Pass] -= 1;
    run.assert_failure("of which 4 are in no second that was read, and the clients have counted 5");
}

#[test]
fn request_in_the_wrong_second_fails() {
    let mut run = Run::good();
    run.members[1].seconds = [(100, Some([3, 1])), (101, Some([3, 3]))].into();
    run.assert_failure(
        "second 100 of service-2 has 3 admitted requests, and the clients have counted 2",
    );
    // Its decision may have been in either second.
    let mut run = Run::good();
    run.members[0].seconds =
        [(100, 4, 4), (101, 5, 6), (102, 7, 8)].map(|(s, a, b)| (s, Some([a, b]))).into();
    run.members[0].record.delivered.1[Pass] += 1;
    run.members[0].record.lifetime = run.members[0].record.delivered.1;
    run.answers(1).note(Use { earliest: 101 * S - 1, latest: 101 * S + 1 }, true);
    let failures = run.audit().1;
    assert!(!failures.iter().any(|it| it.contains("second 10")), "{failures:?}");
}

#[test]
fn count_of_a_closed_process_that_is_nowhere_fails() {
    let mut run = Run::good();
    run.members[0].record.delivered.1[Block] -= 1;
    run.assert_failure("the requests of service-1 are not all delivered, missed or late");
    let mut run = Run::good();
    run.members[0].record.waiting = totals([1, 0]);
    run.assert_failure("the requests of service-1 are not all delivered, missed or late");
    let mut run = Run::good();
    run.members[0].record.lifetime[Cancelled] = 1;
    run.assert_failure("has 1 cancelled requests, and the clients have counted 0");
}

#[test]
fn late_counts_are_named_and_missed_seconds_fail() {
    let mut run = Run::good();
    run.members[0].record.delivered.1[Block] -= 1;
    run.members[0].record.late[Block] = 1;
    run.members[0].seconds.insert(102, Some([7, 7]));
    let (text, failures) = run.audit();
    assert!(text.contains("in 3 seconds, late 0 + 1\n"), "{text}");
    assert!(failures.is_empty(), "{failures:?}");
    run.members[0].record.missed.0 = 1;
    run.assert_failure("service-1 has missed 1 seconds");
    run.members[0].record.late[Block] = 21;
    run.assert_failure("21 of 33 requests of service-1 are late");
}

#[test]
fn processes_of_the_fleet_are_those_that_have_run() {
    let mut run = Run::good();
    run.members.pop();
    run.assert_failure("the fleet has the processes service-1 (closed), and these have run: service-1 (closed), service-2 (killed)");
    run.assert_failure(
        "process 0000000000000002 is not in the fleet, and has admitted 12 and refused 9",
    );
    let mut run = Run::good();
    run.members[0].record.has_left = false;
    run.assert_failure("the fleet has the processes service-1 (killed), service-2 (killed)");
}

#[test]
fn sum_that_is_off_by_one_fails() {
    let mut sum = Record::default();
    (sum.delivered, sum.lifetime) = ((5, totals([21, 23])), totals([21, 22]));
    let run = Run { sum: Some(sum), ..Run::good() };
    run.assert_failure("delivered of the fleet is");
}
