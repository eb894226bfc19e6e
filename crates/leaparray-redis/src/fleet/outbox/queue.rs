//! The seconds that wait for their delivery, in their order.

use std::collections::VecDeque;

use leaparray::EventCounts;

/// A second that was read from the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The second, by the clock of the process.
    pub second: u64,
    /// The sum of what was recorded in it.
    pub totals: EventCounts,
    /// The encoded second.
    pub bytes: Vec<u8>,
    /// The counts in the seconds right before it, if these were not read.
    pub unread: EventCounts,
}

/// One or several seconds. Only a second that was not shed has bytes.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// The last of the seconds.
    pub(super) second: u64,
    /// Their number.
    pub(super) count: u64,
    pub(super) totals: EventCounts,
    pub(super) bytes: Option<Vec<u8>>,
}

/// The seconds that wait. A second that is too old, or for which there is no room, is *shed*: its
/// bytes are dropped.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    max_bytes: usize,
    /// The first second after all that were ever sent.
    sent_before: u64,
    seconds: VecDeque<Waiting>,
}

impl Queue {
    /// Creates an empty queue, before the second `first`. Seconds take up to `max_bytes` bytes.
    pub(super) const fn new(first: u64, max_bytes: usize) -> Self {
        Self { max_bytes, sent_before: first, seconds: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }

    /// Returns the number of entries: of seconds that were not shed, and of merged ones.
    pub(super) fn len(&self) -> usize {
        self.seconds.len()
    }

    pub(super) fn front(&self) -> Option<&Waiting> {
        self.seconds.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.seconds.iter()
    }

    /// Returns the first second after the last one that waits.
    pub(super) fn end(&self) -> Option<u64> {
        self.seconds.back().map(|it| it.second + 1)
    }

    /// Returns the number of the seconds.
    pub(super) fn count(&self) -> u64 {
        self.seconds.iter().map(|it| it.count).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.seconds.iter().filter_map(|it| it.bytes.as_ref()).map(Vec::len).sum()
    }

    /// Returns the sum of the entries from a position on.
    pub(super) fn sum(&self, from: usize) -> EventCounts {
        let mut sum = EventCounts::default();
        for it in self.seconds.iter().skip(from) {
            sum += &it.totals;
        }
        sum
    }

    /// Adds a second after `end`, the end of the queue, and those that were not read before it. A
    /// second before `first` has no bytes: the server does not take it. Beyond the most bytes, the
    /// oldest seconds are shed.
    pub(super) fn push(&mut self, second: Undelivered, end: u64, first: u64) {
        let Undelivered { second, totals, bytes, unread } = second;
        let skipped = second - end;
        if skipped > 0 {
            let last = second - 1;
            let unread = Waiting { second: last, count: skipped, totals: unread, bytes: None };
            self.seconds.push_back(unread);
        }
        let bytes = (second >= first).then_some(bytes);
        self.seconds.push_back(Waiting { second, count: 1, totals, bytes });
        let mut bytes = self.bytes();
        for it in &mut self.seconds {
            if bytes <= self.max_bytes {
                break;
            }
            bytes -= it.bytes.take().map_or(0, |it| it.len());
        }
        self.merge();
    }

    /// Notes that the seconds before `next` were sent.
    pub(super) fn note_sent(&mut self, next: u64) {
        self.sent_before = self.sent_before.max(next);
    }

    /// Forgets what was sent, under another identity. Nothing from `first` on was.
    pub(super) const fn begin_at(&mut self, first: u64) {
        self.sent_before = first;
    }

    /// Drops the seconds before `next`, which are decided.
    pub(super) fn decide(&mut self, next: u64) {
        while self.seconds.front().is_some_and(|it| it.second < next) {
            self.seconds.pop_front();
        }
    }

    /// Sheds the seconds for which `is_shed` holds.
    pub(super) fn shed(&mut self, is_shed: impl Fn(u64) -> bool) {
        for it in &mut self.seconds {
            if is_shed(it.second) {
                it.bytes = None;
            }
        }
        self.merge();
    }

    /// Merges the seconds that were shed and never sent: all of them will be missed. Of the sent
    /// ones, the server may have taken some.
    fn merge(&mut self) {
        let mut merged: VecDeque<Waiting> = VecDeque::with_capacity(self.seconds.len());
        for it in self.seconds.drain(..) {
            match merged.back_mut() {
                Some(last)
                    if last.bytes.is_none()
                        && it.bytes.is_none()
                        && last.second >= self.sent_before =>
                {
                    last.second = it.second;
                    last.count += it.count;
                    last.totals += &it.totals;
                }
                _ => merged.push_back(it),
            }
        }
        self.seconds = merged;
    }
}
