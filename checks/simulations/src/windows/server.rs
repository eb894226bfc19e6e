//! The server and its replica.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use leaparray_redis::fleet::{Archive, Outcome, Receipt, Record};

use super::decided::Decided;
use super::ledger::Taken;
use super::process::{Message, Process};
use super::truth::Truth;
use super::violations::{Check, Violations};
use super::{After, Broken, MICROS, Scenario};

/// The answer to a delivery.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) receipt: Receipt,
    /// For a conflict, what the record of the server decides.
    pub(super) decided: Option<Arc<Decided>>,
}

/// The data of a process on the server.
#[derive(Clone, Debug)]
struct Held {
    version: u64,
    decided: Arc<Decided>,
    /// Since when it has it.
    since: u64,
    /// The time of its last delivery.
    contact: u64,
}

/// The data of a server.
#[derive(Clone, Debug)]
struct Data {
    archive: Archive,
    held: HashMap<usize, Held>,
}

/// A loss of data.
#[derive(Clone, Copy, Debug)]
struct Loss {
    at: u64,
    /// The first delivery after it.
    heard: Option<u64>,
    /// The first delivery that builds on a version that was lost, or the first one of all if
    /// nothing is left.
    shown: Option<u64>,
    is_blank: bool,
}

/// The server, its replica, and all that any server has taken.
#[derive(Debug)]
pub(super) struct Server {
    scenario: Scenario,
    data: Data,
    replica: Option<Data>,
    pub(super) is_away: bool,
    /// When the last outage began, and when the server answered again.
    last_outage: (u64, u64),
    /// How often it has lost data.
    pub(super) epoch: u64,
    losses: Vec<Loss>,
    taken: HashMap<usize, Taken>,
}

impl Data {
    fn new(scenario: &Scenario) -> Self {
        Self { archive: Archive::new(scenario.config), held: HashMap::new() }
    }
}

impl Server {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            scenario: scenario.clone(),
            data: Data::new(scenario),
            replica: None,
            is_away: false,
            last_outage: (0, 0),
            epoch: 0,
            losses: Vec::new(),
            taken: HashMap::new(),
        }
    }

    pub(super) fn archive(&mut self) -> &mut Archive {
        &mut self.data.archive
    }

    /// Returns what any server has taken of a process.
    pub(super) fn taken(&self, process: usize) -> Option<&Taken> {
        self.taken.get(&process)
    }

    /// Returns whether the server knew a process at a time, and still does.
    pub(super) fn knows(&self, process: usize, at: u64) -> bool {
        self.data.held.get(&process).is_some_and(|it| it.since <= at)
    }

    /// Returns when a process had last reached a server at a time: this one, if it has its data.
    pub(super) fn contact_at(&self, process: usize, at: u64) -> u64 {
        let contact = self.taken.get(&process).map_or(0, |it| it.contact_at(at));
        self.data.held.get(&process).map_or(contact, |it| it.contact.min(contact))
    }

    /// Takes a delivery of a process or refuses it.
    pub(super) fn deliver(
        &mut self,
        now: u64,
        message: &Message,
        sender: &Process,
        truth: &Truth,
        violations: &mut Violations,
    ) -> Answer {
        self.expire(now, message.process, sender, truth);
        let Message { process, delivery, .. } = message;
        let held = self.data.held.get(process);
        let receipt = if self.scenario.broken == Some(Broken::TakesAnyVersion) {
            let mut delivery = delivery.clone();
            delivery.base = delivery.base.max(held.map_or(0, |it| it.version));
            self.data.archive.deliver(now, &delivery)
        } else {
            self.data.archive.deliver(now, delivery)
        };
        match receipt.outcome {
            Outcome::Taken => {
                if let Some(loss) = self.losses.last_mut() {
                    let is_later = delivery.base > held.map_or(0, |it| it.version);
                    let shows = loss.is_blank || is_later;
                    loss.heard.get_or_insert(now);
                    loss.shown = loss.shown.or(shows.then_some(now));
                }
                let version = delivery.base.max(held.map_or(0, |it| it.version)) + 1;
                let since = held.map_or(now, |it| it.since);
                let decided = Arc::clone(&message.decided);
                self.data.held.insert(*process, Held { version, decided, since, contact: now });
                self.record(now, message, truth, violations);
                Answer { receipt, decided: None }
            }
            Outcome::Conflict { .. } => {
                let decided = held.map(|it| Arc::clone(&it.decided));
                Answer { receipt, decided }
            }
            _ => Answer { receipt, decided: None },
        }
    }

    /// Forgets a process whose record has expired, since it has delivered nothing for `departed`.
    /// If the answers to its last deliveries were lost, nothing tells it that they were taken: it
    /// counts their seconds as missed. No request of it is in flight for that long.
    fn expire(&mut self, now: u64, number: usize, process: &Process, truth: &Truth) {
        let kept = u64::from(self.scenario.config.departed()) * MICROS;
        let is_expired = |it: &Held| now >= it.contact.saturating_add(kept);
        if let Entry::Occupied(held) = self.data.held.entry(number)
            && is_expired(held.get())
        {
            held.remove();
            if let Some(taken) = self.taken.get_mut(&number) {
                taken.lose(&process.decided, |_| false, truth, number);
            }
        }
    }

    /// Records a delivery that was taken, and checks that its record counts what was taken of the
    /// process.
    fn record(&mut self, now: u64, message: &Message, truth: &Truth, violations: &mut Violations) {
        let Message { process, delivery, epoch, .. } = message;
        let taken = self.taken.entry(*process).or_default();
        for second in &delivery.seconds {
            let totals = truth.of_process(*process, second.second);
            taken.add(now, second.second, &totals);
        }
        let record = Record::decode(&delivery.record).expect("a record of the simulation");
        taken.contact(now);
        taken.first = record.first;
        // A delivery that was sent to a server that has lost data since does not know what was
        // taken then.
        let is_exact = *epoch < self.epoch || record.delivered == taken.sum;
        violations.check(Check::Conservation, is_exact, || {
            format!("the server has taken {:?} of process {process}: {record:?}", taken.sum)
        });
    }

    /// Returns whether a process had reached the server within the last `lost_after`, or before an
    /// outage that was over within that time. A shorter one than half of `lost_after` is not one
    /// that the server notices.
    pub(super) fn has_heard(&self, process: usize, at: u64) -> bool {
        let lost_after = self.scenario.config.lost_after_micros();
        let Some(taken) = self.taken.get(&process) else { return false };
        let has_heard = |at: u64| at - taken.contact_at(at) < lost_after;
        let (away, back) = self.last_outage;
        let is_noticed = back.saturating_sub(away) >= lost_after / 2;
        has_heard(at) || is_noticed && back <= at && at < back + lost_after && has_heard(away)
    }

    /// Returns whether the server had lost data at a time, and nothing had shown that, though
    /// processes had reached it since. It does not know then that it may lack the processes whose
    /// joins it has lost: gap 2 of the promise.
    pub(super) fn is_unaware(&self, at: u64) -> bool {
        let loss = self.losses.iter().rfind(|it| it.at <= at);
        loss.is_some_and(|it| {
            it.heard.is_some_and(|heard| heard <= at) && it.shown.is_none_or(|shown| shown > at)
        })
    }

    /// Begins an outage.
    pub(super) fn go_away(&mut self, now: u64) {
        (self.is_away, self.last_outage.0) = (true, now);
    }

    /// Copies the data to the replica.
    pub(super) fn replicate(&mut self) {
        self.replica = Some(self.data.clone());
    }

    /// Ends an outage.
    pub(super) fn come_back(
        &mut self,
        now: u64,
        after: After,
        processes: &[Process],
        truth: &Truth,
    ) {
        (self.is_away, self.last_outage.1) = (false, now);
        self.data = match after {
            After::Same => return,
            After::Blank => Data::new(&self.scenario),
            After::Replica(_) => self.replica.take().expect("the replica has a copy"),
        };
        self.epoch += 1;
        let is_blank = after == After::Blank;
        self.losses.push(Loss { at: now, heard: None, shown: None, is_blank });
        let archive = &mut self.data.archive;
        for (number, taken) in &mut self.taken {
            let process = &processes[*number];
            let id = [process.id];
            let is_there = |second| archive.second(now, second, &id).iter().all(Option::is_some);
            taken.lose(&process.decided, is_there, truth, *number);
        }
    }

    /// Takes notice of what a process takes for delivered.
    pub(super) fn answered(&mut self, now: u64, process: usize, decided: &Decided, truth: &Truth) {
        if let Some(taken) = self.taken.get_mut(&process) {
            taken.answer(now, decided, truth, process);
        }
    }
}
