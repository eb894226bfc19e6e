//! The server: the specification of the scripts.

use std::collections::BTreeMap;

use super::message::{Delivery, Known, Outcome, Receipt, Survey};
use super::{FleetConfig, MICROS, ProcessId};

/// The state of a fleet on the server, and the answers. The scripts do the same; the tests compare
/// both.
///
/// ```
/// use leaparray_redis::fleet::{Archive, FleetConfig, Outbox, Outcome, ProcessId};
///
/// let config = FleetConfig::default();
/// let mut server = Archive::new(config);
/// let mut outbox = Outbox::new(config, ProcessId(1), "web-1", 60, 1 << 20);
/// let (second, _) = outbox.encode(60, [], 1_024);
/// outbox.push(second);
///
/// let now = 61_000_000;
/// let delivery = outbox.delivery(now);
/// assert_eq!(server.deliver(now, &delivery).outcome, Outcome::Taken);
/// // The same message again: the server has the version that it would make, and changes nothing.
/// assert!(matches!(server.deliver(now, &delivery).outcome, Outcome::Conflict { version: 1, .. }));
/// let survey = server.survey(now);
/// assert_eq!((survey.since, survey.processes.len(), survey.processes[0].version), (now, 1, 1));
/// assert!(server.second(now, 60, &[ProcessId(1)])[0].is_some());
/// // It forgets the second after the deadline and the history.
/// assert_eq!(server.second(config.expiry(60), 60, &[ProcessId(1)]), [None]);
/// ```
#[derive(Clone, Debug)]
pub struct Archive {
    config: FleetConfig,
    since: u64,
    /// The time of the last delivery of any process.
    heard: u64,
    records: BTreeMap<ProcessId, Stored>,
    seconds: BTreeMap<u64, BTreeMap<ProcessId, Vec<u8>>>,
}

#[derive(Clone, Debug)]
struct Stored {
    version: u64,
    contact: u64,
    record: Vec<u8>,
    names: Vec<Vec<u8>>,
}

impl Archive {
    /// Creates a server without data.
    #[must_use]
    pub const fn new(config: FleetConfig) -> Self {
        Self { config, since: 0, heard: 0, records: BTreeMap::new(), seconds: BTreeMap::new() }
    }

    /// Takes a delivery at the time `now` of the server, in microseconds, or refuses it.
    pub fn deliver(&mut self, now: u64, delivery: &Delivery) -> Receipt {
        self.expire(now);
        let stored = self.records.get(&delivery.process);
        let names = stored.map_or(0, |it| u32::try_from(it.names.len()).unwrap_or(u32::MAX));
        let outcome = self.check(now, delivery, names);
        if outcome != Outcome::Taken {
            return Receipt { now, names, processes: self.live(now), outcome };
        }
        if self.is_new_start(now, delivery) {
            self.since = now;
        }
        self.heard = self.heard.max(now);
        let mut all_names =
            self.records.remove(&delivery.process).map_or_else(Vec::new, |it| it.names);
        // The ones that it has are the same: the number of a name never changes.
        let known = all_names.len().saturating_sub(delivery.names_before as usize);
        all_names.extend(delivery.names.iter().skip(known).cloned());
        let names = u32::try_from(all_names.len()).unwrap_or(u32::MAX);
        let stored = Stored {
            version: delivery.base + 1,
            contact: now,
            record: delivery.record.clone(),
            names: all_names,
        };
        self.records.insert(delivery.process, stored);
        for second in &delivery.seconds {
            let of_second = self.seconds.entry(second.second).or_default();
            of_second.insert(delivery.process, second.bytes.clone());
        }
        Receipt { now, names, processes: self.live(now), outcome }
    }

    /// Returns the number of processes that have delivered lately.
    fn live(&self, now: u64) -> u32 {
        let lost_after = self.config.lost_after_micros();
        let live = self.records.values().filter(|it| now.saturating_sub(it.contact) < lost_after);
        u32::try_from(live.count()).unwrap_or(u32::MAX)
    }

    /// Returns whether the server may not know all processes, or not when each was last heard of.
    fn is_new_start(&self, now: u64, delivery: &Delivery) -> bool {
        // Processes that could not reach the server are not lost as soon as the first of them is
        // back.
        let silence = now.saturating_sub(self.heard);
        if self.heard == 0 || silence >= self.config.lost_after_micros() / 2 {
            return true;
        }
        // The server has lost data since it last heard of this process: it may have lost the join
        // of another one.
        let stored = self.records.get(&delivery.process);
        let (version, contact) =
            stored.map_or((0, delivery.first * MICROS), |it| (it.version, it.contact));
        version < delivery.base && contact >= self.since
    }

    fn check(&self, now: u64, delivery: &Delivery, names: u32) -> Outcome {
        if let Some(stored) = self.records.get(&delivery.process)
            && stored.version > delivery.base
        {
            let Stored { version, record, .. } = stored;
            return Outcome::Conflict { version: *version, record: record.clone() };
        }
        let is_too_late = |second| now >= self.config.deadline(second);
        let joins_late = delivery.base == 0 && now >= self.config.settling(delivery.first);
        if joins_late || delivery.seconds.iter().any(|it| is_too_late(it.second)) {
            return Outcome::TooLate;
        }
        if delivery.seconds.iter().any(|it| now < self.config.opening(it.second)) {
            return Outcome::TooEarly;
        }
        if names < delivery.names_before { Outcome::NamesLost } else { Outcome::Taken }
    }

    /// Returns what is known of all processes.
    pub fn survey(&mut self, now: u64) -> Survey {
        self.expire(now);
        let known = |(process, stored): (&ProcessId, &Stored)| Known {
            process: *process,
            version: stored.version,
            contact: stored.contact,
            record: stored.record.clone(),
        };
        Survey { now, since: self.since, processes: self.records.iter().map(known).collect() }
    }

    /// Returns what some processes have delivered of a second.
    pub fn second(
        &mut self,
        now: u64,
        second: u64,
        processes: &[ProcessId],
    ) -> Vec<Option<Vec<u8>>> {
        self.expire(now);
        let of_second = self.seconds.get(&second);
        processes.iter().map(|it| of_second.and_then(|all| all.get(it).cloned())).collect()
    }

    /// Returns the names of a process from the number `from` on, at most `count` of them.
    #[must_use]
    pub fn names(&self, process: ProcessId, from: u32, count: u32) -> Vec<Vec<u8>> {
        let names = self.records.get(&process).map_or(&[][..], |it| &it.names);
        names.iter().skip(from as usize).take(count as usize).cloned().collect()
    }

    fn expire(&mut self, now: u64) {
        let config = self.config;
        self.seconds.retain(|second, _| now < config.expiry(*second));
        let kept = u64::from(config.departed()) * MICROS;
        self.records.retain(|_, it| now < it.contact.saturating_add(kept));
        if self.records.is_empty() {
            self.heard = 0;
        }
    }
}
