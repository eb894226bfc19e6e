//! How far a limiter is enforced.

use std::error::Error;
use std::fmt;

/// How far a [`Shadow`](super::Shadow) enforces its limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// The limiter is not asked: it counts nothing, and every request is admitted.
    Off,
    /// The limiter decides, and its refusals and waits are counted and not carried out.
    Shadow,
    /// Of the requests that the limiter refuses or delays, the share is refused or delayed,
    /// exactly: ⌊*n* · share⌋ of the first *n*. The others are as in [`Shadow`](Self::Shadow).
    ///
    /// A counter selects them, and no random draw. If the share changes, the counter goes on: the
    /// number is then the sum of the shares, rounded down.
    Requests(Share),
    /// The limiter is enforced for a share of the keys, and for the others it is as in
    /// [`Shadow`](Self::Shadow). A hash of the key selects them: see
    /// [`Shadow::of_key`](super::Shadow::of_key). A request without a key is as in `Shadow`.
    Keys(Share),
    /// The decisions of the limiter are carried out.
    Enforce,
}

impl Mode {
    /// The name of each mode, as labels of metrics have it.
    pub const NAMES: [&str; 5] = ["off", "shadow", "requests", "keys", "enforce"];

    /// Returns the name of the mode, one of [`NAMES`](Self::NAMES).
    ///
    /// ```
    /// use leaparray::flow::shadow::{Mode, Share};
    ///
    /// assert_eq!(Mode::Shadow.name(), "shadow");
    /// assert_eq!(Mode::Keys(Share::percent(10)?).name(), "keys");
    /// # Ok::<_, leaparray::flow::shadow::ShareError>(())
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.kind()]
    }

    /// Returns the share of the requests, or of the keys, for which the limiter is enforced.
    ///
    /// ```
    /// use leaparray::flow::shadow::{Mode, Share};
    ///
    /// assert_eq!(Mode::Shadow.enforced(), Share::NONE);
    /// assert_eq!(Mode::Enforce.enforced(), Share::ALL);
    /// ```
    #[must_use]
    pub const fn enforced(self) -> Share {
        match self {
            Self::Off | Self::Shadow => Share::NONE,
            Self::Requests(share) | Self::Keys(share) => share,
            Self::Enforce => Share::ALL,
        }
    }

    /// Returns whether some request of a key, whose hash is given, is refused if the limiter
    /// refuses it.
    pub(super) fn is_enforced_for(self, key: Option<u64>) -> bool {
        match self {
            Self::Keys(share) => key.is_some_and(|key| share.contains(key)),
            mode => mode.enforced() > Share::NONE,
        }
    }

    /// Returns the mode as a word: `{ kind, share: 32 }`.
    pub(super) const fn to_word(self) -> u64 {
        ((self.kind() as u64) << 32) | self.enforced().0 as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are the share")]
    pub(super) const fn of_word(word: u64) -> Self {
        let share = Share(word as u32);
        match word >> 32 {
            0 => Self::Off,
            1 => Self::Shadow,
            2 => Self::Requests(share),
            3 => Self::Keys(share),
            _ => Self::Enforce,
        }
    }

    const fn kind(self) -> usize {
        match self {
            Self::Off => 0,
            Self::Shadow => 1,
            Self::Requests(_) => 2,
            Self::Keys(_) => 3,
            Self::Enforce => 4,
        }
    }
}

/// A share from 0 to 1, in parts of a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u32);

impl Share {
    /// The share 0.
    pub const NONE: Self = Self(0);

    /// The share 1.
    pub const ALL: Self = Self(Self::PARTS);

    const PARTS: u32 = 1_000_000;

    /// Creates a share in percent.
    ///
    /// # Errors
    ///
    /// Returns a [`ShareError`] above 100 %.
    ///
    /// ```
    /// use leaparray::flow::shadow::Share;
    ///
    /// assert_eq!(Share::percent(5)?, Share::per_million(50_000)?);
    /// let error = Share::percent(101).unwrap_err();
    /// assert_eq!(error.to_string(), "a share of 101 in 100 is above 1");
    /// # Ok::<_, leaparray::flow::shadow::ShareError>(())
    /// ```
    pub const fn percent(percent: u32) -> Result<Self, ShareError> {
        if percent > 100 {
            return Err(ShareError { parts: percent, of: 100 });
        }
        Ok(Self(percent * (Self::PARTS / 100)))
    }

    /// Creates a share in parts of a million.
    ///
    /// # Errors
    ///
    /// Returns a [`ShareError`] above a million.
    pub const fn per_million(parts: u32) -> Result<Self, ShareError> {
        if parts > Self::PARTS {
            return Err(ShareError { parts, of: Self::PARTS });
        }
        Ok(Self(parts))
    }

    /// Returns the share in parts of a million.
    #[must_use]
    pub const fn parts_per_million(self) -> u32 {
        self.0
    }

    /// Returns whether it is neither 0 nor 1.
    pub(super) const fn is_partial(self) -> bool {
        0 < self.0 && self.0 < Self::PARTS
    }

    /// Returns whether a request is selected, if the shares of the requests before it add up to
    /// `before` parts and this is its own.
    pub(super) const fn selects(self, before: u64) -> bool {
        let parts = Self::PARTS as u64;
        before % parts + self.0 as u64 >= parts
    }

    /// Returns whether a hash is in the share: in a greater share it is as well.
    pub(super) const fn contains(self, hash: u64) -> bool {
        let place = (hash as u128 * Self::PARTS as u128) >> 64;
        place < self.0 as u128
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", f64::from(self.0) / f64::from(Self::PARTS / 100))
    }
}

/// The error of a [`Share`] above 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShareError {
    /// The parts that were asked for.
    pub parts: u32,
    /// The parts of the whole.
    pub of: u32,
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a share of {} in {} is above 1", self.parts, self.of)
    }
}

impl Error for ShareError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn word_has_the_whole_mode() {
        for share in [0, 1, 999_999, 1_000_000].map(|parts| Share::per_million(parts).unwrap()) {
            for mode in
                [Mode::Off, Mode::Shadow, Mode::Requests(share), Mode::Keys(share), Mode::Enforce]
            {
                assert_eq!(Mode::of_word(mode.to_word()), mode);
                assert_eq!(Mode::NAMES[mode.kind()], mode.name());
            }
        }
    }

    #[test]
    fn share_contains_its_part_of_the_hashes() {
        let share = |parts| Share::per_million(parts).unwrap();
        assert!(!Share::NONE.contains(0) && Share::ALL.contains(u64::MAX));
        let hash = u64::MAX / 4;
        assert!(share(250_001).contains(hash) && !share(249_999).contains(hash));
    }
}
