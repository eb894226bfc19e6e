//! The labels of a sample.

/// The most labels that a sample has.
const MOST: usize = 5;

/// Names and values of labels. In Prometheus, a label with an empty value is the same as none. It is exposed nevertheless:
/// some parsers want the samples of a family to have the same labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels<'a> {
    pairs: [(&'static str, &'a str); MOST],
    len: usize,
}

impl<'a> Labels<'a> {
    pub(crate) const NONE: Self = Self { pairs: [("", ""); MOST], len: 0 };

    /// Adds a label.
    ///
    /// # Panics
    ///
    /// Panics if there are too many labels.
    pub(crate) fn with(mut self, name: &'static str, value: &'a str) -> Self {
        self.pairs[self.len] = (name, value);
        self.len += 1;
        self
    }

    pub(crate) fn pairs(&self) -> &[(&'static str, &'a str)] {
        &self.pairs[..self.len]
    }
}
