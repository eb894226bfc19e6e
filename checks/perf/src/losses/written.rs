//! What the threads recorded, by time.

use super::BUCKETS;
use super::clock::Span;

/// How many calls returned, by when they were made, and what became of the others.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// Calls in a row with the same span are in one entry.
    calls: Vec<(Span, u64)>,
    pub(super) panicked: u64,
    /// What the first panic said.
    pub(super) said: Option<String>,
}

impl Written {
    pub(super) fn add(&mut self, span: Span) {
        match self.calls.last_mut() {
            Some((last, count)) if *last == span => *count += 1,
            _ => self.calls.push((span, 1)),
        }
    }

    pub(super) fn panicked(&mut self, said: String) {
        self.panicked += 1;
        self.said.get_or_insert(said);
    }

    pub(super) fn append(&mut self, other: Self) {
        self.calls.extend(other.calls);
        self.panicked += other.panicked;
        self.said = self.said.take().or(other.said);
    }

    pub(super) fn recorded(&self) -> u64 {
        self.count(|_| true)
    }

    /// Those that every window which is read in `read` covers.
    pub(super) fn certainly_in(&self, read: Span) -> u64 {
        self.count(|call| call.first + BUCKETS > read.last && call.last <= read.first)
    }

    /// Those that some window which is read in `read` covers.
    pub(super) fn possibly_in(&self, read: Span) -> u64 {
        self.count(|call| call.last + BUCKETS > read.first && call.first <= read.last)
    }

    fn count(&self, which: impl Fn(Span) -> bool) -> u64 {
        self.calls.iter().filter(|(span, _)| which(*span)).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One call in each of the spans.
    fn written(spans: &[(u64, u64)]) -> Written {
        let mut written = Written::default();
        for &(first, last) in spans {
            written.add(Span { first, last });
        }
        written
    }

    #[test]
    fn window_covers_as_many_buckets_as_it_has() {
        let written = written(&[(100, 100), (101, 101), (120, 120), (121, 121)]);
        let read = Span::at(120);
        assert_eq!((written.certainly_in(read), written.possibly_in(read)), (2, 2));
        assert_eq!(written.recorded(), 4);
    }

    #[test]
    fn adds_on_the_edge_may_be_in_the_window_or_not() {
        let written = written(&[(100, 101), (101, 102), (102, 102), (102, 102)]);
        assert_eq!(
            (written.certainly_in(Span::at(120)), written.possibly_in(Span::at(120))),
            (3, 4)
        );
        let read = Span { first: 120, last: 121 };
        assert_eq!((written.certainly_in(read), written.possibly_in(read)), (2, 4));
    }
}
