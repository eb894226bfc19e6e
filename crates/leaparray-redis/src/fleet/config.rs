//! The settings of a window over a fleet.

use super::MICROS;
use super::error::FleetConfigError;

/// The settings of a window over a fleet. All processes of a fleet have the same ones: they are a
/// part of its keys.
///
/// ```
/// use leaparray_redis::fleet::FleetConfig;
///
/// let config = FleetConfig::default();
/// assert_eq!(
///     (config.history(), config.delivery(), config.grace(), config.lost_after()),
///     (60, 30, 2, 5)
/// );
/// assert!(config.with_grace(0).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FleetConfig {
    history: u32,
    delivery: u32,
    grace: u32,
    lost_after: u32,
    departed: u32,
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self { history: 60, delivery: 30, grace: 2, lost_after: 5, departed: 600 }
    }
}

impl FleetConfig {
    /// The longest [`history`](Self::history) and [`delivery`](Self::delivery), in seconds: a day.
    /// It bounds [`lost_after`](Self::lost_after) and [`grace`](Self::grace) too, which are not
    /// longer than `delivery`. [`departed`](Self::departed) can be longer.
    pub const MAX_SECONDS: u32 = 86_400;

    /// Sets for how many seconds after its deadline a second can be read: from 2 to
    /// [`MAX_SECONDS`](Self::MAX_SECONDS). By default 60. A longer one than the default needs
    /// [`with_departed`](Self::with_departed) first.
    ///
    /// # Errors
    ///
    /// Returns a [`FleetConfigError`] for another number.
    pub fn with_history(self, seconds: u32) -> Result<Self, FleetConfigError> {
        Self { history: seconds, ..self }.checked()
    }

    /// Sets how long after its end a second can be delivered: longer than
    /// [`lost_after`](Self::lost_after), up to [`MAX_SECONDS`](Self::MAX_SECONDS). By default 30.
    /// It is also the longest time that the server can be away without a loss.
    ///
    /// # Errors
    ///
    /// Returns a [`FleetConfigError`] for another number.
    pub fn with_delivery(self, seconds: u32) -> Result<Self, FleetConfigError> {
        Self { delivery: seconds, ..self }.checked()
    }

    /// Sets by how many seconds the clock of a process may differ from the server's clock: from 1
    /// to [`delivery`](Self::delivery). By default 2. No second is final before this time after its
    /// end. A process delivers nothing from seconds that were over by more than this when it first
    /// reached the server.
    ///
    /// # Errors
    ///
    /// Returns a [`FleetConfigError`] for another number.
    pub fn with_grace(self, seconds: u32) -> Result<Self, FleetConfigError> {
        Self { grace: seconds, ..self }.checked()
    }

    /// Sets after how many seconds without a delivery a process counts as lost: from 3, to less
    /// than [`delivery`](Self::delivery). By default 5. Readers do not wait for the seconds of lost
    /// processes. If no process at all delivers for half of this time, the server was away, and no
    /// process counts as lost for it; each delivers once a second. A reader whose first survey, or
    /// whose first one for as long, is in such a time shows no further second as final until
    /// `seconds` have passed: a server that has lost data may not know all processes yet. This
    /// holds again after each time for which the reader has not asked for as long.
    ///
    /// # Errors
    ///
    /// Returns a [`FleetConfigError`] for another number.
    pub fn with_lost_after(self, seconds: u32) -> Result<Self, FleetConfigError> {
        Self { lost_after: seconds, ..self }.checked()
    }

    /// Sets for how many seconds the server keeps the record of a process that delivers no more: at
    /// least as long as it keeps a second, which is [`delivery`](Self::delivery) +
    /// [`history`](Self::history) + 10 seconds, up to `u32::MAX`. By default
    /// 600. For that time, the totals of the fleet include the process. If a process cannot reach
    /// the server for longer, it counts each second whose delivery had no answer as missed, also if
    /// the server had taken it.
    ///
    /// # Errors
    ///
    /// Returns a [`FleetConfigError`] for another number.
    pub fn with_departed(self, seconds: u32) -> Result<Self, FleetConfigError> {
        Self { departed: seconds, ..self }.checked()
    }

    /// Returns for how many seconds after its deadline a second can be read.
    #[must_use]
    pub const fn history(&self) -> u32 {
        self.history
    }

    /// Returns for how many seconds after its end a second can be delivered.
    #[must_use]
    pub const fn delivery(&self) -> u32 {
        self.delivery
    }

    /// Returns by how many seconds the clocks may differ.
    #[must_use]
    pub const fn grace(&self) -> u32 {
        self.grace
    }

    /// Returns after how many seconds without a delivery a process counts as lost.
    #[must_use]
    pub const fn lost_after(&self) -> u32 {
        self.lost_after
    }

    /// Returns for how many seconds the record of a process that delivers no more is kept.
    #[must_use]
    pub const fn departed(&self) -> u32 {
        self.departed
    }

    /// Returns the time from which on the server takes a second no longer, in microseconds of its
    /// clock.
    #[must_use]
    pub const fn deadline(&self, second: u64) -> u64 {
        end_of(second).saturating_add(self.delivery as u64 * MICROS)
    }

    /// Returns the time from which on the server takes a second, in microseconds of its clock:
    /// earlier, the clock of the process is too far ahead.
    #[must_use]
    pub const fn opening(&self, second: u64) -> u64 {
        end_of(second).saturating_sub(self.grace as u64 * MICROS)
    }

    /// Returns the time from which on a second can be final, in microseconds of the server's clock.
    /// From then on, no process joins with this second.
    #[must_use]
    pub const fn settling(&self, second: u64) -> u64 {
        end_of(second).saturating_add(self.grace as u64 * MICROS)
    }

    /// Returns the time at which the server forgets a second, in microseconds of its clock.
    #[must_use]
    pub const fn expiry(&self, second: u64) -> u64 {
        self.deadline(second).saturating_add((self.history as u64 + MARGIN) * MICROS)
    }

    /// Returns after which time without a delivery a process counts as lost, in microseconds.
    #[must_use]
    pub const fn lost_after_micros(&self) -> u64 {
        self.lost_after as u64 * MICROS
    }

    fn checked(self) -> Result<Self, FleetConfigError> {
        let check = |setting, seconds, min, max| {
            if (min..=max).contains(&seconds) {
                Ok(())
            } else {
                Err(FleetConfigError { setting, seconds, min, max })
            }
        };
        check("history", self.history, 2, Self::MAX_SECONDS)?;
        check("lost_after", self.lost_after, 3, Self::MAX_SECONDS - 1)?;
        check("delivery", self.delivery, self.lost_after + 1, Self::MAX_SECONDS)?;
        check("grace", self.grace, 1, self.delivery)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is 10")]
        let kept = self.history + self.delivery + MARGIN as u32;
        check("departed", self.departed, kept, u32::MAX)?;
        Ok(self)
    }
}

/// For how many seconds more the server keeps a second than a reader may need it.
const MARGIN: u64 = 10;

/// Returns the end of a second, in microseconds.
const fn end_of(second: u64) -> u64 {
    second.saturating_add(1).saturating_mul(MICROS)
}
