//! A process: its clock, its outbox, and the delivery that is in flight.

use std::sync::Arc;

use fastrand::Rng;
use leaparray::{EventCounts, MetricEvent};
use leaparray_redis::fleet::{Delivery, Outbox, Outcome, ProcessId, Receipt, Record};

use super::decided::Decided;
use super::server::Answer;
use super::truth::{Truth, identity, part, plus};
use super::violations::{Check, Violations};
use super::{Broken, Clocks, MICROS, Scenario};

/// How long after its end a second is read, by the clock of the process, in microseconds.
const READ_DELAY: u64 = 50_000;
/// The probability that a reading finds late counts.
const LATE: f64 = 0.02;
/// How many calls without an answer end the last deliveries of a process.
const LAST_TRIES: u32 = 2;

/// A delivery on its way.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) process: usize,
    /// The number of the request in its process.
    pub(super) request: u64,
    /// How often the server had lost data when it was sent.
    pub(super) epoch: u64,
    pub(super) delivery: Delivery,
    /// The decisions if it is taken.
    pub(super) decided: Arc<Decided>,
}

/// The next step of a process after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It sends at once.
    Send,
    /// It sends soon.
    Wait,
    /// It sends after the next second.
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    /// The current second is the last one.
    Closing,
    /// The last second was read.
    Leaving,
    Ended,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    number: usize,
    pub(super) id: ProcessId,
    /// By how many microseconds its clock is ahead.
    skew: i64,
    second_bytes: usize,
    outbox_bytes: usize,
    /// Whether unanswered deliveries count as missed.
    is_careless: bool,
    pub(super) random: Rng,
    state: State,
    pub(super) outbox: Outbox,
    /// The counts in seconds that were read, and the late ones.
    recorded: EventCounts,
    late: EventCounts,
    unfinished: EventCounts,
    pub(super) decided: Arc<Decided>,
    in_flight: Option<Arc<Message>>,
    requests: u64,
    failures: u32,
    /// The first second, by its clock, and the first one after the last.
    pub(super) first: u64,
    pub(super) end: Option<u64>,
    /// The most bytes that waited.
    pub(super) most_bytes: usize,
    pub(super) has_left: bool,
}

impl Process {
    pub(super) fn new(scenario: &Scenario, number: usize, seed: u64, time: u64) -> Self {
        let id = identity(seed, number);
        let mut random = Rng::with_seed(id);
        let second = MICROS.cast_signed();
        let skew = match (scenario.faults.clocks, number % scenario.processes) {
            (Clocks::Exact, _) => 0,
            (Clocks::Far, 1) => 10 * second,
            (Clocks::Far, place) if place % 5 == 0 => -10 * second,
            _ => random.i64(-second..=second),
        };
        let Scenario { config, second_bytes, outbox_bytes, .. } = *scenario;
        let first = time.saturating_add_signed(skew) / MICROS;
        let name = format!("process-{number}");
        Self {
            number,
            id: ProcessId(id),
            skew,
            second_bytes,
            outbox_bytes,
            is_careless: scenario.broken == Some(Broken::UnansweredIsMissed),
            random,
            state: State::Runs,
            outbox: Outbox::new(config, ProcessId(id), &name, first, outbox_bytes),
            recorded: EventCounts::default(),
            late: EventCounts::default(),
            unfinished: EventCounts::default(),
            decided: Arc::new(Decided::new(first)),
            in_flight: None,
            requests: 0,
            failures: 0,
            first,
            end: None,
            most_bytes: 0,
            has_left: false,
        }
    }

    fn clock(&self, time: u64) -> u64 {
        time.saturating_add_signed(self.skew)
    }

    pub(super) fn runs(&self) -> bool {
        self.state == State::Runs
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns whether a second is one of the process, so far.
    pub(super) fn had(&self, second: u64) -> bool {
        second >= self.first && self.end.is_none_or(|end| second < end)
    }

    /// Returns how long it takes until the next second can be read.
    pub(super) fn until_reading(&self, time: u64) -> u64 {
        let clock = self.clock(time);
        let at = (self.outbox.end() + 1) * MICROS + READ_DELAY;
        at.saturating_sub(clock).max(1)
    }

    /// Reads the seconds that are over. After a stall, the oldest may have left the window of the
    /// registry.
    pub(super) fn read(&mut self, time: u64, truth: &Truth, violations: &mut Violations) {
        let clock = self.clock(time);
        let (from, now) = (self.outbox.end(), clock / MICROS);
        let backlog = now.saturating_sub(from);
        let skipped =
            if backlog > 3 && self.random.bool() { self.random.u64(..backlog) } else { 0 };
        let mut unread = EventCounts::default();
        for second in from..now {
            let totals = truth.of_process(self.number, second);
            self.recorded += &totals;
            if second < from + skipped {
                unread += &totals;
                continue;
            }
            let rows = truth.rows(self.number, second);
            let (mut undelivered, left_out) = self.outbox.encode(second, rows, self.second_bytes);
            undelivered.unread = std::mem::take(&mut unread);
            self.outbox.push(undelivered);
            self.outbox.set_left_out(left_out);
            self.check_memory(violations);
        }
        if self.state == State::Runs && self.random.f64() < LATE {
            self.late[MetricEvent::Pass] += self.random.u64(1..4);
        }
        self.unfinished = EventCounts::default();
        if self.state == State::Closing && now > from {
            self.state = State::Leaving;
            self.end = Some(self.outbox.end());
            self.outbox.leave();
        } else {
            self.unfinished = part(&truth.of_process(self.number, now), clock % MICROS);
        }
        let lifetime = plus(&plus(&self.recorded, &self.late), &self.unfinished);
        self.outbox.set_totals(lifetime, self.late);
        self.check_record(&self.outbox.record(), violations);
    }

    fn check_memory(&mut self, violations: &mut Violations) {
        let bytes = self.outbox.waiting_len().1;
        self.most_bytes = self.most_bytes.max(bytes);
        violations.check(Check::Memory, bytes <= self.outbox_bytes, || {
            format!("process {}: {bytes} bytes wait", self.number)
        });
    }

    /// Checks that each count is in exactly one part of a record.
    fn check_record(&self, record: &Record, violations: &mut Violations) {
        let mut sum = self.unfinished;
        for part in [&record.delivered.1, &record.missed.1, &record.late, &record.waiting] {
            sum += part;
        }
        let holds = sum == record.lifetime && record.unfinished() == self.unfinished;
        violations.check(Check::Conservation, holds, || {
            format!("process {}: the parts are {sum:?}, of {record:?}", self.number)
        });
    }

    /// Returns the next delivery, unless one is in flight.
    pub(super) fn send(
        &mut self,
        time: u64,
        epoch: u64,
        truth: &Truth,
        violations: &mut Violations,
    ) -> Option<Arc<Message>> {
        if self.in_flight.is_some() || self.has_ended() {
            return None;
        }
        let delivery = self.outbox.delivery(self.clock(time));
        let record = Record::decode(&delivery.record).expect("an own record");
        let decided = self.decided.after(&delivery, &record, truth, self.number);
        self.check_record(&record, violations);
        violations.check(Check::Conservation, decided.is_in(&record), || {
            format!("process {}: sends {record:?}, not {decided:?}", self.number)
        });
        let is_early = delivery.seconds.iter().any(|it| it.second < record.first);
        violations.check(Check::Complete, !is_early, || {
            format!("process {}: delivers a second before its first one: {record:?}", self.number)
        });
        self.requests += 1;
        let (process, request, decided) = (self.number, self.requests, Arc::new(decided));
        let message = Arc::new(Message { process, request, epoch, delivery, decided });
        self.in_flight = Some(Arc::clone(&message));
        Some(message)
    }

    /// Takes an answer, unless the request is not in flight any more. Returns what the process does
    /// then.
    pub(super) fn receive(
        &mut self,
        time: u64,
        request: u64,
        answer: &Answer,
        violations: &mut Violations,
    ) -> Option<Next> {
        let sent = self.in_flight.take_if(|it| it.request == request)?;
        if self.has_ended() {
            return None;
        }
        let has_more = self.outbox.on_receipt(self.clock(time), &answer.receipt);
        match &answer.receipt.outcome {
            Outcome::Taken => self.decided = Arc::clone(&sent.decided),
            Outcome::Conflict { version, .. } if *version > sent.delivery.base => {
                let decided = answer.decided.as_ref();
                self.decided = Arc::clone(decided.expect("a conflict is with a record"));
            }
            _ => {}
        }
        let record = self.outbox.record();
        self.check_record(&record, violations);
        violations.check(Check::Conservation, self.decided.is_in(&record), || {
            format!("process {}: has {record:?}, not {:?}", self.number, self.decided)
        });
        self.failures = 0;
        if self.state == State::Leaving && self.outbox.is_done() {
            self.state = State::Ended;
            self.has_left = true;
            let is_all = record.waiting.is_zero() && record.unfinished().is_zero();
            violations.check(Check::Conservation, is_all && record.has_left, || {
                format!("process {} has left: {record:?}", self.number)
            });
        }
        // A process that leaves asks again if its clock is too far ahead. The others do so after
        // their next second.
        let is_early = self.state == State::Leaving && !has_more;
        Some(match (has_more, is_early) {
            (true, _) => Next::Send,
            (false, true) => Next::Wait,
            (false, false) => Next::Read,
        })
    }

    /// Gives up a request. Returns the wait before the next one, in microseconds; `None` if there
    /// is none.
    pub(super) fn give_up(&mut self, time: u64, request: u64) -> Option<u64> {
        let sent = self.in_flight.take_if(|it| it.request == request)?;
        if self.is_careless {
            self.count_as_missed(time, &sent);
        }
        self.failures += 1;
        if self.state == State::Leaving && self.failures >= LAST_TRIES {
            self.state = State::Ended;
            return None;
        }
        let longest = (50_000 << self.failures.min(10)).min(MICROS);
        Some(self.random.u64(longest / 2..=longest))
    }

    /// The broken rule: takes the seconds of a delivery for missed.
    fn count_as_missed(&mut self, time: u64, sent: &Message) {
        let mut record = Record::decode(&sent.delivery.record).expect("an own record");
        let mut decided = (*self.decided).clone();
        let taken = record.delivered.0 - decided.delivered.0;
        let totals = record.delivered.1.saturating_sub(&decided.delivered.1);
        record.missed = (record.missed.0 + taken, plus(&record.missed.1, &totals));
        record.delivered = decided.delivered;
        (decided.missed, decided.next) = (record.missed, record.next);
        decided.missed_seconds.clone_from(&sent.decided.missed_seconds);
        decided.missed_seconds.extend(sent.delivery.seconds.iter().map(|it| it.second));
        self.decided = Arc::new(decided);
        let version = sent.delivery.base + 1;
        let outcome = Outcome::Conflict { version, record: record.encode() };
        let names = sent.delivery.names_before;
        self.outbox
            .on_receipt(self.clock(time), &Receipt { now: time, names, processes: 1, outcome });
    }

    /// Ends at once.
    pub(super) fn crash(&mut self, time: u64) {
        self.state = State::Ended;
        self.end = Some(self.clock(time) / MICROS + 1);
    }

    /// Ends after the current second.
    pub(super) fn close(&mut self) {
        self.state = State::Closing;
    }
}
