//! The calls that threads made, by time.

use super::BUCKETS;
use super::clock::Span;

/// The calls that returned, by their spans, and the calls that panicked.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// Consecutive calls with the same span share an entry.
    calls: Vec<(Span, u64)>,
    pub(super) panicked: u64,
}

impl Written {
    pub(super) fn add(&mut self, span: Span) {
        match self.calls.last_mut() {
            Some((last, count)) if *last == span => *count += 1,
            _ => self.calls.push((span, 1)),
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        self.calls.extend(other.calls);
        self.panicked += other.panicked;
    }

    pub(super) fn recorded(&self) -> u64 {
        self.count(|_| true)
    }

    /// Counts the calls that the window covers at all times in their span and in `read`.
    pub(super) fn certainly_in(&self, read: Span) -> u64 {
        self.count(|call| call.first + BUCKETS > read.last && call.last <= read.first)
    }

    /// Counts the calls that the window covers at some time in their span and in `read`.
    pub(super) fn possibly_in(&self, read: Span) -> u64 {
        self.count(|call| call.last + BUCKETS > read.first && call.first <= read.last)
    }

    fn count(&self, which: impl Fn(Span) -> bool) -> u64 {
        self.calls.iter().filter(|(span, _)| which(*span)).map(|(_, count)| count).sum()
    }
}
