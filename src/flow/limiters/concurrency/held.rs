//! The permits of a request, and the word from which they were taken.

/// The bit of a striped word, and of permits that were taken from a stripe.
pub(super) const STRIPED: u64 = 1 << 63;

/// A number of permits, in one word: `{ from a stripe: 1, permits: 63 }`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held(u64);

impl Held {
    /// Creates the permits of the limiter's own word.
    #[inline]
    pub(super) const fn of_word(permits: u64) -> Self {
        Self(permits)
    }

    #[inline]
    pub(super) const fn of_stripe(permits: u64) -> Self {
        Self(permits | STRIPED)
    }

    #[inline]
    pub(super) const fn permits(self) -> u64 {
        self.0 & !STRIPED
    }

    /// Returns whether this is a single permit of the limiter's own word.
    #[inline]
    pub(super) const fn is_one_of_word(self) -> bool {
        self.0 == 1
    }
}
