//! The labels of a sample.

/// The maximum number of labels of a sample.
const MAX_LABELS: usize = 5;

/// Names and values of labels. In Prometheus, a label with an empty value is the same as none. It
/// is exposed nevertheless: some parsers require all samples of a family to have the same label
/// names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels<'a> {
    pairs: [(&'static str, &'a str); MAX_LABELS],
    len: usize,
}

impl<'a> Labels<'a> {
    pub(crate) const NONE: Self = Self { pairs: [("", ""); MAX_LABELS], len: 0 };

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
