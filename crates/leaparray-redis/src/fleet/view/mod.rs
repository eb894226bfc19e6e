//! The fleet as a reader sees it.

mod second;
mod sum;
mod window;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use leaparray::EventCounts;

use super::codec::FormatError;
use super::message::Survey;
use super::names::{Pool, PooledKey, ResourceKey};
use super::second::DecodedSecond;
use super::{FleetConfig, MICROS, ProcessId, Record};
use second::SecondOfFleet;

pub use window::{FleetWindow, Presence, ProcessRow, ResourceRow, Standing};

/// The most processes whose seconds are read at once.
const MAX_FETCH: usize = 64;
/// The most names that are read at once: of one process, and of all.
const MAX_NAMES: u32 = 1_024;
const MAX_ALL_NAMES: u32 = 8_192;

/// A request for parts of a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The second.
    pub second: u64,
    /// The processes.
    pub processes: Vec<ProcessId>,
}

/// Reads the bytes of a second of a process: `None` if it has delivered none.
pub(crate) fn decode<'a>(
    second: u64,
    bytes: Option<&[u8]>,
    into: &'a mut DecodedSecond,
) -> Result<Option<&'a mut DecodedSecond>, FormatError> {
    let Some(bytes) = bytes else { return Ok(None) };
    into.decode(second, bytes)?;
    Ok(Some(into))
}

/// A request for names of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a process, and a range of its names")]
pub struct NamesFetch {
    /// The process.
    pub process: ProcessId,
    /// The number of the first name.
    pub from: u32,
    /// The most names.
    pub count: u32,
}

/// The fleet as a reader sees it: the records of its processes, and its last seconds.
///
/// A reader asks the server again and again: for a [survey](Self::on_survey), then for what is
/// [wanted](Self::wanted) of the seconds and of the [names](Self::wanted_names), and adds the
/// answers.
///
/// ```
/// use leaparray::{MetricEvent, TrafficType};
/// use leaparray_redis::fleet::{
///     Archive, FleetConfig, FleetCounts, FleetView, Outbox, ProcessId, ResourceKey,
/// };
///
/// const MICROS: u64 = 1_000_000;
/// let config = FleetConfig::default();
/// let (mut server, mut view) = (Archive::new(config), FleetView::new(config));
///
/// // Two processes, which deliver their second 60 and leave.
/// for (id, passes) in [(1, 3), (2, 4)] {
///     let mut outbox =
///         Outbox::new(config, ProcessId(id), &format!("web-{id}"), 60, 1 << 20);
///     let mut counts = FleetCounts::default();
///     counts.metrics.counts[MetricEvent::Pass] = passes;
///     let key = ResourceKey::new(&"search".into(), None, TrafficType::Inbound);
///     let (second, _) = outbox.encode(60, [(key, counts)], 16 * 1024);
///     outbox.push(second);
///     outbox.leave();
///     let receipt = server.deliver(61 * MICROS, &outbox.delivery(61 * MICROS));
///     outbox.on_receipt(61 * MICROS, &receipt);
/// }
///
/// // The reader, until `lost_after`: any other process would have reached the server.
/// for now in [62, 64, 66].map(|it| it * MICROS) {
///     view.on_survey(&server.survey(now));
///     while let Some(fetch) = view.wanted() {
///         let found = server.second(now, fetch.second, &fetch.processes);
///         view.on_fetched(&fetch, &found);
///         let wanted = view.wanted_names();
///         let names = wanted.iter().map(|it| server.names(it.process, it.from, it.count));
///         view.on_names(&wanted, &names.collect::<Vec<_>>());
///     }
/// }
///
/// let second = view.window(60..61);
/// assert!(second.standing.is_final());
/// assert_eq!(
///     (second.total.metrics.counts[MetricEvent::Pass], second.presence.to_string()),
///     (7, "2 of 2 processes".into())
/// );
/// // The seconds after that are final too: no process is in them.
/// assert_eq!(view.newest_final(), Some(63));
/// assert_eq!(view.sum().delivered.1[MetricEvent::Pass], 7);
/// ```
#[derive(Clone, Debug)]
pub struct FleetView {
    config: FleetConfig,
    now: u64,
    since: u64,
    /// The time of the last delivery of any process, as of the last survey.
    last_heard: u64,
    /// The time of the last survey that had all processes that are not lost.
    complete: u64,
    processes: BTreeMap<ProcessId, Process>,
    names: Pool,
    seconds: BTreeMap<u64, SecondOfFleet>,
    /// The second of which parts were read last.
    begun: Option<u64>,
    /// The number of records and seconds of processes that could not be read.
    unreadable: u64,
    /// The processes whose records could not be read.
    strangers: BTreeMap<ProcessId, Stranger>,
}

/// A process whose record could not be read.
#[derive(Clone, Copy, Debug)]
struct Stranger {
    version: u64,
    /// Whether it is live, and was not known before.
    is_expected: bool,
}

/// A process as of its newest record.
#[derive(Clone, Debug)]
struct Process {
    version: u64,
    contact: u64,
    name: Arc<str>,
    record: Record,
    names: Vec<PooledKey>,
    /// Whether the server did not have the next names since the last survey.
    lacks_names: bool,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessState {
    /// It delivers.
    Live,
    /// It was closed, and has delivered everything.
    Left,
    /// It has delivered nothing for [`lost_after`](FleetConfig::lost_after), while others have.
    Lost,
}

impl FleetView {
    /// Creates the view before the first survey.
    #[must_use]
    pub fn new(config: FleetConfig) -> Self {
        Self {
            config,
            now: 0,
            since: 0,
            last_heard: 0,
            complete: 0,
            processes: BTreeMap::new(),
            names: Pool::default(),
            seconds: BTreeMap::new(),
            begun: None,
            unreadable: 0,
            strangers: BTreeMap::new(),
        }
    }

    /// Returns the time of the last survey, in microseconds of the server's clock.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Returns how many records and seconds of processes could not be read: they are of another
    /// version of the crate, or damaged. A live process with such a record counts as
    /// [expected](Presence::expected) in each second, and as present in none.
    #[must_use]
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Takes a survey.
    ///
    /// If neither a process has delivered nor a survey was taken for half of
    /// [`lost_after`](FleetConfig::lost_after), the server may have been away, and have lost
    /// processes that had joined. No further second is final until `lost_after` has passed, with
    /// surveys in shorter intervals than that half. So a reader that always asks less often shows
    /// none while no process delivers.
    pub fn on_survey(&mut self, survey: &Survey) {
        self.keep_final();
        self.since = self.since.max(survey.since);
        if self.may_lack_processes(survey) {
            self.since = survey.now;
        }
        self.now = survey.now;
        self.last_heard = survey.processes.iter().map(|it| it.contact).max().unwrap_or(0);
        let before = std::mem::take(&mut self.strangers);
        for known in &survey.processes {
            let process = self.processes.get_mut(&known.process);
            // A server that has lost data may have an earlier record.
            let is_known = process
                .as_ref()
                .is_some_and(|it| it.version >= known.version && it.contact >= known.contact);
            if is_known {
                continue;
            }
            let Ok(mut record) = Record::decode(&known.record) else {
                let counted = before.get(&known.process).map(|it| it.version);
                self.unreadable += u64::from(counted != Some(known.version));
                let lost_at = known.contact.saturating_add(self.config.lost_after_micros());
                let is_expected = process.is_none() && survey.now < lost_at;
                let stranger = Stranger { version: known.version, is_expected };
                self.strangers.insert(known.process, stranger);
                continue;
            };
            let (version, contact) = (known.version, known.contact);
            // A server that has lost data may get an earlier delivery again. A later one may have
            // the version of one that was lost, if the process had no answer to that.
            let is_earlier =
                |it: &&mut Process| it.version >= version && it.record.next >= record.next;
            if process.as_ref().is_some_and(is_earlier) {
                continue;
            }
            if let Some(process) = process {
                // A process whose join the server has lost joins again, with a later second.
                record.first = record.first.min(process.record.first);
                (process.version, process.contact, process.record) = (version, contact, record);
            } else {
                let name = record.name.as_str().into();
                let process = Process {
                    version,
                    contact,
                    name,
                    record,
                    names: Vec::new(),
                    lacks_names: false,
                };
                self.processes.insert(known.process, process);
            }
        }
        // After a loss of its data, the server does not know all processes before each has reached
        // it.
        let is_complete = self.since.saturating_add(self.config.lost_after_micros()) <= self.now;
        if is_complete && !survey.processes.is_empty() {
            self.complete = self.now;
        }
        let kept = u64::from(self.config.departed()) * MICROS;
        self.processes.retain(|_, it| self.now < it.contact.saturating_add(kept));
        self.forget();
        for it in self.processes.values_mut() {
            it.lacks_names = false;
        }
        // A second that is expected to be there is known, also if nothing of it is.
        for second in self.range() {
            self.seconds.entry(second).or_insert_with(|| SecondOfFleet::new(second));
        }
        for it in self.seconds.values_mut() {
            let second = it.second();
            let has_delivered =
                |process: &Process| process.record.covers(second) && second < process.record.next;
            let processes = self.processes.iter().filter(|it| has_delivered(it.1));
            it.set_delivered(processes.map(|it| *it.0));
        }
    }

    /// Returns whether the server may not know all processes, and cannot tell: it has lost data,
    /// and no process has reached it since. Then it has heard of no process for a while. A reader
    /// that has asked in that time knows of a delivery that is lost.
    ///
    /// If the reader has not asked for a while, it does not matter that the server was silent
    /// before: since then, a process may have joined, the server may have been away, and a replica
    /// without the process may have the deliveries that the reader knows.
    fn may_lack_processes(&self, survey: &Survey) -> bool {
        let heard = survey.processes.iter().map(|it| it.contact).max().unwrap_or(0);
        let is_silent = self.is_while(heard, survey.now) && self.is_while(self.now, survey.now);
        heard < self.last_heard || is_silent
    }

    /// Returns whether a time is so long ago that the server may have been away since.
    const fn is_while(&self, since: u64, now: u64) -> bool {
        now.saturating_sub(since) >= self.config.lost_after_micros() / 2
    }

    /// Returns within which time to ask again. As long as no process delivers, a reader that does
    /// not ask for half of `lost_after` cannot tell that the server was not away.
    ///
    /// Also once all seconds are final: [`newest_final`](Self::newest_final) follows the server's
    /// time, and a reader that asks less often shows no further second as final. After all records
    /// have expired, a process may join and fall silent within a period. Its seconds would become
    /// final `lost_after` after the next poll, and the view might have forgotten them by then.
    pub(crate) const fn ask_within(&self) -> Duration {
        if self.is_while(self.last_heard, self.now) {
            Duration::from_micros(self.config.lost_after_micros() / 3)
        } else {
            Duration::MAX
        }
    }

    /// Returns the seconds that the view has.
    fn range(&self) -> Range<u64> {
        let now = self.now / MICROS;
        let kept = u64::from(self.config.history()) + u64::from(self.config.delivery());
        let first = self.processes.values().map(|it| it.record.first).min().unwrap_or(now);
        now.saturating_sub(kept).max(first)..(now + u64::from(self.config.grace()))
    }

    fn forget(&mut self) {
        let oldest = self.range().start;
        self.seconds = self.seconds.split_off(&oldest);
        self.names.shrink();
    }

    /// Returns what to read next of a second; `None` if everything was read that the last survey
    /// has told of.
    ///
    /// The newest second that can be final comes first, then older seconds, and then seconds that
    /// cannot be final yet. A second of which a part was read is completed before a newer one. So a
    /// reader that is slower than the fleet skips seconds, and sees the others final. The last
    /// minute is not final then: see [`FleetWindow::standing`].
    #[must_use]
    pub fn wanted(&self) -> Option<Fetch> {
        self.wanted_beside(None)
    }

    /// Returns what to read while the answer to another request is added.
    pub(crate) fn wanted_beside(&self, other: Option<&Fetch>) -> Option<Fetch> {
        let is_settled = |it: &&SecondOfFleet| self.config.settling(it.second()) <= self.now;
        let begun = self.begun.and_then(|it| self.seconds.get(&it)).filter(is_settled);
        let settled = self.seconds.values().rev().filter(is_settled);
        let others = self.seconds.values().filter(|it| !is_settled(it));
        let fetch = |it: &SecondOfFleet| {
            let asked = other.filter(|other| other.second == it.second());
            let asked = asked.map_or(&[][..], |other| &other.processes);
            // Both are in the order of the processes.
            let unread = it.unread().iter().filter(|it| asked.binary_search(it).is_err());
            let processes: Vec<_> = unread.copied().take(MAX_FETCH).collect();
            (!processes.is_empty()).then_some(Fetch { second: it.second(), processes })
        };
        begun.into_iter().chain(settled).chain(others).find_map(fetch)
    }

    /// Takes what was read of a second: the bytes of each process, if it has delivered any.
    pub fn on_fetched(&mut self, fetch: &Fetch, bytes: &[Option<Vec<u8>>]) {
        let mut decoded = DecodedSecond::default();
        for (process, bytes) in fetch.processes.iter().zip(bytes) {
            let part = decode(fetch.second, bytes.as_deref(), &mut decoded);
            self.on_part(*process, fetch.second, part);
        }
        self.on_fetched_all(fetch);
    }

    /// Takes what was read of a second of one process.
    pub(crate) fn on_part(
        &mut self,
        process: ProcessId,
        second: u64,
        part: Result<Option<&mut DecodedSecond>, FormatError>,
    ) {
        let names = self.processes.get(&process).map(|it| it.names.as_slice());
        if let Some(it) = self.seconds.get_mut(&second) {
            self.unreadable += u64::from(it.insert(process, part, names).is_err());
        }
    }

    /// Notes that all parts were taken.
    pub(crate) fn on_fetched_all(&mut self, fetch: &Fetch) {
        if let Some(it) = self.seconds.get_mut(&fetch.second) {
            it.set_read(&fetch.processes);
        }
        self.begun = Some(fetch.second);
    }

    /// Returns the names to read next, of many processes at once: none if all are known that the
    /// server has.
    #[must_use]
    pub fn wanted_names(&self) -> Vec<NamesFetch> {
        let mut needed = BTreeMap::new();
        for (process, names) in self.seconds.values().flat_map(SecondOfFleet::unnamed) {
            let most = needed.entry(process).or_insert(0);
            *most = names.max(*most);
        }
        let mut left = MAX_ALL_NAMES;
        let fetch = |(process, needed): (ProcessId, u32)| {
            let it = self.processes.get(&process).filter(|it| !it.lacks_names)?;
            let from = u32::try_from(it.names.len()).unwrap_or(u32::MAX);
            let count = needed.saturating_sub(from).min(MAX_NAMES).min(left);
            left -= count;
            (count > 0).then_some(NamesFetch { process, from, count })
        };
        needed.into_iter().filter_map(fetch).collect()
    }

    /// Takes names of processes: a list for each one that was asked for, empty if the server has
    /// none.
    pub fn on_names(&mut self, fetches: &[NamesFetch], names: &[Vec<Vec<u8>>]) {
        for (at, fetch) in fetches.iter().enumerate() {
            self.on_names_of(fetch, names.get(at).map_or(&[], Vec::as_slice));
        }
    }

    fn on_names_of(&mut self, fetch: &NamesFetch, names: &[Vec<u8>]) {
        let Some(it) = self.processes.get_mut(&fetch.process) else { return };
        let known = it.names.len();
        let new = known.saturating_sub(fetch.from as usize);
        let names = if fetch.from as usize > known { &[] } else { names };
        let unreadable =
            || ResourceKey::new(&"(unreadable)".into(), None, leaparray::TrafficType::Inbound);
        for name in names.iter().skip(new) {
            let key = ResourceKey::decode(name).unwrap_or_else(|_| unreadable());
            it.names.push(self.names.get(key));
        }
        it.lacks_names = it.names.len() == known;
        let seconds: Vec<_> = self.seconds.keys().copied().collect();
        for second in seconds {
            self.name(fetch.process, second);
        }
    }

    /// Adds the second of a process to the sums, once the names of its rows are known.
    fn name(&mut self, process: ProcessId, second: u64) {
        if let (Some(it), Some(second)) =
            (self.processes.get(&process), self.seconds.get_mut(&second))
        {
            second.name(process, &it.names);
        }
    }

    /// Returns the records of the processes, and what they do.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, &Record, ProcessState)> {
        let heard = self.heard();
        self.processes.iter().map(move |(id, it)| (*id, &it.record, self.state_at(it, heard)))
    }

    /// Returns the sum of the records of all processes. Its name is empty, and its seconds mean
    /// nothing.
    #[must_use]
    pub fn sum(&self) -> Record {
        let mut sum = Record::default();
        for record in self.processes.values().map(|it| &it.record) {
            let add = |sum: &mut (u64, EventCounts), it: &(u64, EventCounts)| {
                sum.0 = sum.0.saturating_add(it.0);
                sum.1 += &it.1;
            };
            add(&mut sum.delivered, &record.delivered);
            add(&mut sum.missed, &record.missed);
            sum.late += &record.late;
            sum.waiting += &record.waiting;
            sum.lifetime += &record.lifetime;
            sum.left_out = sum.left_out.saturating_add(record.left_out);
        }
        sum
    }

    /// Returns the time at which the server has last heard of a process.
    fn heard(&self) -> u64 {
        self.processes.values().map(|it| it.contact).max().unwrap_or(0)
    }

    fn state_at(&self, process: &Process, heard: u64) -> ProcessState {
        // A process is lost if others were heard of since, so not because the server was away.
        let contact = process.contact.max(self.since);
        if process.record.has_left {
            ProcessState::Left
        } else if heard.saturating_sub(contact) >= self.config.lost_after_micros() {
            ProcessState::Lost
        } else {
            ProcessState::Live
        }
    }
}
