//! When a reading of a source counts.

use crate::document::Documents;

/// The result of a reading: documents, or why there are none.
pub(crate) type Reading = Result<Documents, String>;

/// Finds the readings on which to act: one that differs from the last of these, and that was read
/// twice in a row. An editor that truncates a file and writes it again shows an empty file, or a
/// half of it, for a moment. All errors are one reading: their texts may have a time or a number.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// Whether a reading counts at once, except documents that may be a part of the whole.
    is_whole: bool,
    settled: Option<Reading>,
    pending: Option<Reading>,
}

impl Follower {
    pub(crate) fn new(is_whole: bool) -> Self {
        Self { is_whole, ..Self::default() }
    }

    /// Takes a reading. Returns the one on which to act, if there is one.
    pub(crate) fn look(&mut self, reading: Reading) -> Option<&Reading> {
        self.look_if(reading, |_| true)
    }

    /// Takes a reading, of which documents count at once only if `keeps_all` returns true: a server
    /// may send a file that is being written. Calls it at most once.
    pub(crate) fn look_if(
        &mut self,
        reading: Reading,
        keeps_all: impl FnOnce(&Documents) -> bool,
    ) -> Option<&Reading> {
        if is_same(self.settled.as_ref(), &reading) {
            self.pending = None;
            return None;
        }
        let counts = is_same(self.pending.as_ref(), &reading)
            || self.is_whole && reading.as_ref().map_or(true, keeps_all);
        if !counts {
            self.pending = Some(reading);
            return None;
        }
        self.pending = None;
        self.settled = Some(reading);
        self.settled.as_ref()
    }

    /// Returns whether a reading would confirm the one before.
    pub(crate) fn would_confirm(&self, reading: &Reading) -> bool {
        is_same(self.pending.as_ref(), reading)
    }

    /// Returns the documents that a second reading has to confirm, if there are any.
    pub(crate) fn pending_documents(&self) -> Option<&Documents> {
        self.pending.as_ref()?.as_ref().ok()
    }
}

fn is_same(one: Option<&Reading>, other: &Reading) -> bool {
    match (one, other) {
        (Some(Ok(one)), Ok(other)) => one == other,
        (Some(Err(_)), Err(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "a reading")]
    fn text(text: &str) -> Reading {
        Ok(text.to_owned().into())
    }

    fn away() -> Reading {
        Err("no such file".to_owned())
    }

    /// Returns the readings on which to act.
    fn acted(readings: &[Reading]) -> Vec<Reading> {
        let mut follower = Follower::default();
        readings.iter().filter_map(|it| follower.look(it.clone()).cloned()).collect()
    }

    #[test]
    fn text_counts_when_it_was_read_twice_in_a_row() {
        assert_eq!(acted(&[text("a")]), []);
        assert_eq!(acted(&[text("a"), text("a")]), [text("a")]);
        assert_eq!(acted(&[text("a"), text("b"), text("a"), text("b")]), []);
        assert_eq!(acted(&[text("a"), text("a"), text("a"), text("a")]), [text("a")]);
    }

    #[test]
    fn truncated_and_half_written_file_does_not_count() {
        let old = [text("old"), text("old")];
        let save = [text(""), text("ne"), text("new"), text("new")];
        assert_eq!(acted(&[old.as_slice(), &save].concat()), [text("old"), text("new")]);
        // The half of the file, and then the old one again.
        let back = [text("ol"), text("old"), text("ol"), text("old")];
        assert_eq!(acted(&[old.as_slice(), &back].concat()), [text("old")]);
    }

    #[test]
    fn absence_counts_whatever_the_texts_of_its_errors() {
        let attempt = |number: u8| Err(format!("attempt {number} has failed"));
        let all = [text("old"), text("old"), attempt(1), attempt(2), attempt(3), text("old")];
        assert_eq!(acted(&all), [text("old"), attempt(2)]);
        let mut follower = Follower::default();
        follower.look(attempt(1));
        assert_eq!(follower.pending_documents(), None, "it is not read again at once");
        follower.look(text("new"));
        assert_eq!(follower.pending_documents(), text("new").as_ref().ok());
    }

    #[test]
    fn reading_of_a_source_whose_readings_are_whole_counts_at_once() {
        let mut follower = Follower::new(true);
        let mut acts = |reading: Reading| follower.look(reading).is_some();
        let all = [text("a"), text("a"), away(), away(), text("a"), text("b")];
        assert_eq!(all.map(&mut acts), [true, false, true, false, true, true]);
    }

    #[test]
    fn documents_that_may_be_a_part_count_when_they_were_read_twice_in_a_row() {
        let mut follower = Follower::new(true);
        let mut acts = |reading, keeps_all| follower.look_if(reading, |_| keeps_all).is_some();
        assert!(acts(text("both"), true));
        assert!(!acts(text("first"), false));
        assert!(!acts(text("second"), false), "another one");
        assert!(!acts(text("both"), true), "the last one is in force");
        assert!(!acts(text("first"), false));
        assert!(acts(away(), true), "it is told at once");
        assert!(!acts(text("first"), false));
        assert!(acts(text("first"), false));
    }

    #[test]
    fn absence_counts_when_it_lasts_and_so_does_the_return() {
        let old = [text("old"), text("old")];
        let renamed = [away(), text("old"), text("old")];
        assert_eq!(acted(&[old.as_slice(), &renamed].concat()), [text("old")]);
        let gone = [away(), away(), away(), text("old"), text("old")];
        assert_eq!(acted(&[old.as_slice(), &gone].concat()), [text("old"), away(), text("old")]);
    }
}
