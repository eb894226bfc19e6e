//! The seconds of a process that are not delivered yet.

mod queue;

use std::collections::VecDeque;

use leaparray::EventCounts;

use super::counts::FleetCounts;
use super::message::{Delivery, Outcome, Receipt, SecondBytes};
use super::names::{Names, ResourceKey};
use super::second::{ProcessSecond, Row};
use super::{FleetConfig, MICROS, ProcessId, Record};
pub use queue::Undelivered;
use queue::{Queue, Waiting};

/// The most seconds of one delivery.
const MAX_SECONDS: usize = 16;
/// The most bytes of the seconds of one delivery, and of its names. One second is always sent.
const MAX_BYTES: usize = 64 * 1024;
/// The most nonces that are known: of more than a quarter of an hour without an answer. If an
/// earlier delivery arrives even later, the process is renamed without need.
const MAX_NONCES: usize = 1_024;

/// The seconds of a process that are not delivered yet, and the state of its record.
///
/// The seconds are decided in their order. A second that is too old, or for which there is no room,
/// is *shed*: its bytes are dropped, and the next delivery counts it as missed, unless an earlier
/// one has delivered it and only the answer was lost.
#[derive(Clone, Debug)]
pub struct Outbox {
    config: FleetConfig,
    process: ProcessId,
    /// The version of `record` on the server, as far as is known.
    version: u64,
    /// Delivered and missed are as of `version`.
    record: Record,
    /// The record of the delivery that is in flight, and the first second after it.
    sent: Option<Record>,
    /// The nonces of the deliveries that build on `version`: the record of the server has one of
    /// them, or another process has written it.
    nonces: VecDeque<u64>,
    /// Whether another process has written the record of the server.
    is_taken: bool,
    /// The counts in the records of the former identities of the process, and the late ones.
    settled: EventCounts,
    settled_late: EventCounts,
    queue: Queue,
    names: Names,
    /// The number of names that the server has.
    names_sent: u32,
    names_in_flight: u32,
    /// Whether the server knows that the process has left.
    has_left: bool,
    /// The number of live processes, as of the last receipt.
    processes: u32,
}

impl Outbox {
    /// Creates the outbox of a process whose first second is `first`. Seconds take up to
    /// `max_bytes` bytes while they wait.
    #[must_use]
    pub fn new(
        config: FleetConfig,
        process: ProcessId,
        name: &str,
        first: u64,
        max_bytes: usize,
    ) -> Self {
        let record = Record { name: name.to_owned(), first, next: first, ..Record::default() };
        Self {
            config,
            process,
            version: 0,
            record,
            sent: None,
            nonces: VecDeque::new(),
            is_taken: false,
            settled: EventCounts::default(),
            settled_late: EventCounts::default(),
            queue: Queue::new(first, max_bytes),
            names: Names::default(),
            names_sent: 0,
            names_in_flight: 0,
            has_left: false,
            processes: 1,
        }
    }

    /// Encodes a second of counts that were not read from a registry, for [`push`](Self::push).
    /// Each resource is given once. The busiest ones get rows, of up to `max_bytes` bytes together
    /// (see [`Budget`](super::Budget)). Returns also the number of the others, whose counts are
    /// only in the sum.
    ///
    /// ```
    /// use leaparray::{MetricEvent, TrafficType};
    /// use leaparray_redis::fleet::{FleetConfig, FleetCounts, Outbox, ProcessId, ResourceKey};
    ///
    /// let mut outbox = Outbox::new(FleetConfig::default(), ProcessId(1), "web-1", 60, 1 << 20);
    /// let mut counts = FleetCounts::default();
    /// counts.metrics.counts[MetricEvent::Pass] = 3;
    /// let key = ResourceKey::new(&"search".into(), None, TrafficType::Inbound);
    /// let (second, left_out) = outbox.encode(60, [(key, counts)], 16 * 1024);
    /// assert_eq!((second.totals[MetricEvent::Pass], left_out), (3, 0));
    /// outbox.push(second);
    /// assert_eq!(outbox.record().waiting[MetricEvent::Pass], 3);
    /// ```
    pub fn encode(
        &mut self,
        second: u64,
        counts: impl IntoIterator<Item = (ResourceKey, FleetCounts)>,
        max_bytes: usize,
    ) -> (Undelivered, u64) {
        let mut totals = EventCounts::default();
        let row = |(key, counts): (_, FleetCounts)| {
            totals += &counts.metrics.counts;
            Row { name: self.names.number(key), counts }
        };
        let rows = counts.into_iter().map(row).collect();
        let (bytes, left_out) = ProcessSecond::encode(second, rows, self.names.len(), max_bytes);
        (Undelivered { second, totals, bytes, unread: EventCounts::default() }, left_out)
    }

    /// Adds a second. Seconds are added in their order, each one once.
    ///
    /// # Panics
    ///
    /// Panics if the second is not after the last one.
    pub fn push(&mut self, second: Undelivered) {
        let end = self.end();
        assert!(second.second >= end, "second {} comes after {end}", second.second);
        // After a refusal of the first delivery, the first second may be later than the seconds
        // that are read now.
        self.queue.push(second, end, self.record.first);
    }

    /// Sets the totals of the process: what it has recorded, and what of it was late.
    pub fn set_totals(&mut self, lifetime: EventCounts, late: EventCounts) {
        self.record.lifetime = lifetime.saturating_sub(&self.settled);
        self.record.late = late.saturating_sub(&self.settled_late);
    }

    /// Sets the nonce of the next deliveries: a number that is drawn for each one, from the
    /// randomness of the operating system. Without it, [`is_taken`](Self::is_taken) does not notice
    /// another process.
    pub fn set_nonce(&mut self, nonce: u64) {
        self.record.nonce = nonce;
        if self.nonces.len() == MAX_NONCES {
            self.nonces.pop_front();
        }
        self.nonces.push_back(nonce);
    }

    /// Returns whether another process delivers under the identity of this one, as a clone does:
    /// the record of the server has the nonce of a delivery that this process has not sent. Then,
    /// nothing more is taken of this process until it is [renamed](Self::rename).
    #[must_use]
    pub const fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// Gives the process another identity. All that is not decided is delivered under it, and the
    /// record of the former identity belongs to the other process.
    ///
    /// ```
    /// use leaparray_redis::fleet::{Archive, FleetConfig, Outbox, ProcessId};
    ///
    /// let config = FleetConfig::default();
    /// let mut server = Archive::new(config);
    /// let mut outbox = Outbox::new(config, ProcessId(1), "web-1", 60, 1 << 20);
    /// let mut clone = outbox.clone();
    /// for (nonce, it) in [(1, &mut outbox), (2, &mut clone)] {
    ///     it.set_nonce(nonce);
    ///     let receipt = server.deliver(60_500_000, &it.delivery(60_500_000));
    ///     it.on_receipt(60_500_000, &receipt);
    /// }
    /// assert_eq!((outbox.is_taken(), clone.is_taken()), (false, true));
    /// clone.rename(ProcessId(2));
    /// assert_eq!((clone.record().taken, clone.is_taken()), (1, false));
    /// ```
    pub fn rename(&mut self, process: ProcessId) {
        let record = &mut self.record;
        let mut decided = record.late;
        decided += &record.delivered.1;
        decided += &record.missed.1;
        self.settled += &decided;
        self.settled_late += &record.late;
        *record = Record {
            name: std::mem::take(&mut record.name),
            first: record.next,
            next: record.next,
            lifetime: record.lifetime.saturating_sub(&decided),
            taken: record.taken + 1,
            left_out: record.left_out,
            clock_ahead: record.clock_ahead,
            has_left: record.has_left,
            ..Record::default()
        };
        (self.process, self.version) = (process, 0);
        self.queue.begin_at(self.record.first);
        (self.sent, self.is_taken, self.has_left) = (None, false, false);
        (self.names_sent, self.names_in_flight) = (0, 0);
        self.nonces.clear();
    }

    /// Sets the number of resources that had no row in the last second.
    pub const fn set_left_out(&mut self, resources: u64) {
        self.record.left_out = resources;
    }

    /// Marks the process as leaving: it has no seconds after the waiting ones.
    pub const fn leave(&mut self) {
        self.record.has_left = true;
    }

    /// Returns the number of live processes of the fleet, as of the last receipt: 1 before the
    /// first one.
    #[must_use]
    pub const fn processes(&self) -> u32 {
        self.processes
    }

    pub(crate) const fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Returns whether everything was delivered, also that the process has left if it has.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let has_left = self.has_left || !self.record.has_left;
        self.queue.is_empty() && self.names_sent == self.names.len() && has_left
    }

    /// Returns the first second that was not added.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.queue.end().unwrap_or(self.record.next)
    }

    /// Returns the record as of the last receipt, with the current totals.
    #[must_use]
    pub fn record(&self) -> Record {
        let mut record = self.record.clone();
        record.waiting = self.queue.sum(0);
        record
    }

    /// Returns the number of the seconds that wait, and of their bytes.
    #[must_use]
    pub fn waiting_len(&self) -> (u64, usize) {
        (self.queue.count(), self.queue.bytes())
    }

    /// Returns what to send at a time of the process's clock, in microseconds. It can be sent
    /// again, also if it has arrived.
    ///
    /// If the clock of the process is too far ahead, it has only the seconds that the server takes
    /// by now. It may have none: the server hears of the process.
    pub fn delivery(&mut self, now: u64) -> Delivery {
        self.shed(now);
        let mut record = self.record.clone();
        let names = self.names.from(self.names_sent, MAX_BYTES);
        let names_len = self.names_sent + u32::try_from(names.len()).unwrap_or(u32::MAX);
        let (mut seconds, mut bytes, mut taken) = (Vec::new(), 0, 0);
        // The seconds name only resources whose names are there.
        let has_names = names_len == self.names.len();
        let server = self.server_time(now);
        for it in self.queue.iter().take(MAX_SECONDS) {
            if !has_names || !self.is_open(it, server) {
                break;
            }
            let size = it.bytes.as_ref().map_or(0, Vec::len);
            if taken > 0 && bytes + size > MAX_BYTES {
                break;
            }
            (bytes, taken) = (bytes + size, taken + 1);
            record.next = it.second + 1;
            let sum = if let Some(bytes) = &it.bytes {
                seconds.push(SecondBytes { second: it.second, bytes: bytes.clone() });
                &mut record.delivered
            } else {
                &mut record.missed
            };
            sum.0 += it.count;
            sum.1 += &it.totals;
        }
        record.waiting = self.queue.sum(taken);
        // There are more to come.
        record.has_left &= taken == self.queue.len() && has_names;
        self.queue.note_sent(record.next);
        self.names_in_flight = names_len;
        let delivery = Delivery {
            process: self.process,
            base: self.version,
            first: record.first,
            record: record.encode(),
            seconds,
            names_before: self.names_sent,
            names,
        };
        self.sent = Some(record);
        delivery
    }

    /// Takes the answer to the last delivery, at a time of the process's clock. Returns whether
    /// there is more to send at once.
    pub fn on_receipt(&mut self, now: u64, receipt: &Receipt) -> bool {
        let ahead = i128::from(now) - i128::from(receipt.now);
        self.record.clock_ahead = i64::try_from(ahead).unwrap_or(i64::MAX);
        self.processes = receipt.processes;
        let Some(sent) = self.sent.take() else { return false };
        match &receipt.outcome {
            Outcome::Taken => {
                self.names_sent = self.names_in_flight.min(receipt.names);
                self.decide(self.version + 1, &sent);
                self.has_open(now)
            }
            Outcome::Conflict { version, record } => {
                let Ok(record) = Record::decode(record) else { return false };
                // An earlier version: this answer is to a delivery that was sent before another
                // one.
                if *version > self.version {
                    if !self.nonces.is_empty() && !self.nonces.contains(&record.nonce) {
                        self.is_taken = true;
                        return false;
                    }
                    self.names_sent = receipt.names.min(self.names.len());
                    self.decide(*version, &record);
                }
                true
            }
            Outcome::TooLate => {
                if self.version == 0 {
                    self.join_at(
                        (receipt.now / MICROS).saturating_sub(u64::from(self.config.grace()) - 1),
                    );
                }
                self.shed(now);
                true
            }
            // The time comes, and names were not delivered.
            Outcome::TooEarly => false,
            Outcome::NamesLost => {
                self.names_sent = receipt.names.min(self.names.len());
                true
            }
        }
    }

    /// Takes the decisions of a record of the server.
    fn decide(&mut self, version: u64, record: &Record) {
        self.version = version;
        self.nonces.clear();
        self.record.first = record.first;
        self.record.next = record.next.max(self.record.next);
        (self.record.delivered, self.record.missed) = (record.delivered, record.missed);
        self.has_left |= record.has_left;
        self.queue.decide(record.next);
    }

    /// Moves the first second, after the server has refused the first delivery of the process.
    fn join_at(&mut self, second: u64) {
        let first = self.record.first.max(second);
        self.record.first = first;
        self.queue.shed(|second| second < first);
    }

    /// Returns the time of the server, as far as is known.
    fn server_time(&self, now: u64) -> i128 {
        i128::from(now) - i128::from(self.record.clock_ahead)
    }

    /// Returns whether the server takes the second by now, or it will be missed.
    fn is_open(&self, it: &Waiting, server: i128) -> bool {
        it.bytes.is_none() || server >= i128::from(self.config.opening(it.second))
    }

    /// Returns whether a delivery has anything to send.
    fn has_open(&self, now: u64) -> bool {
        let server = self.server_time(now);
        let is_open = self.queue.front().is_none_or(|it| self.is_open(it, server));
        self.names_sent < self.names.len() || is_open && !self.is_done()
    }

    /// Drops the bytes of seconds that the server takes no longer.
    fn shed(&mut self, now: u64) {
        let (server, config) = (self.server_time(now), self.config);
        self.queue.shed(|second| server >= i128::from(config.deadline(second)));
    }
}
