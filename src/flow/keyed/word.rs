//! A state of one word.

use std::num::NonZeroU64;

/// A number below `u64::MAX`, with a bit pattern to spare: a slot without a key takes no more
/// memory than one with a key.
#[derive(Clone, Copy, Debug)]
pub struct Word(NonZeroU64);

impl Word {
    /// Creates a word of a number, or of the number before `u64::MAX` if it is that.
    #[inline]
    pub(super) const fn new(number: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(number))
    }

    #[inline]
    pub(super) const fn get(self) -> u64 {
        self.0.get() - 1
    }
}
