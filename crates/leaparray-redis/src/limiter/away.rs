//! Requests without a lease, while the server grants nothing.

use std::error::Error;
use std::fmt;

use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
use leaparray::{Clock, Timestamp, WindowConfig};

use crate::lease::{LeaseConfig, LeaseConfigError};

/// The decision on a request that has no lease while the server [is
/// away](super::LeaseState::is_away): the server does not answer, or is in quarantine. A lease in
/// hand is used in any case.
///
/// A quarantine takes the window, the validity of a lease and one bucket. It follows each restart
/// of the server without its state and each promotion of a replica, and is also the beginning of a
/// new limit. **For a window of a minute, [`Closed`](Self::Closed) then refuses all requests for
/// more than a minute.**
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum WhenAway {
    /// It is refused. The limit is never exceeded.
    #[default]
    Closed,
    /// It is admitted. There is no limit while the server is away, and leases that are granted
    /// afterwards do not count these requests.
    Open,
    /// It is admitted from a reserve that each process owns. The limit is never exceeded.
    ///
    /// Of the limit, `part` is set aside, and `processes` processes own the same share of it,
    /// whether the server is away or not. The rest is leased. A process uses its share from one
    /// window after its start on, so that a process that starts again does not use it twice. The
    /// share is also used while the server answers, by requests that find no lease.
    ///
    /// At most `processes` processes may share the limit. All of them need the same part and the
    /// same number: beside processes that lease the whole limit, such as during a deployment, the
    /// shares are admitted beyond it.
    Share {
        /// The part of the limit that is set aside, above 0 and below 1.
        part: f64,
        /// The highest number of processes.
        processes: u32,
    },
}

/// The error of a [`WhenAway::Share`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ShareError {
    /// The part is not above 0 and below 1.
    Part {
        /// The part.
        part: f64,
    },
    /// A process would own less than a permit, or nothing would be left to lease.
    TooSmall {
        /// The limit.
        limit: u64,
        /// The part that is set aside.
        part: f64,
        /// The number of processes.
        processes: u32,
    },
    /// The rest of the limit cannot be leased.
    Config(LeaseConfigError),
}

/// The share of a process.
#[derive(Debug)]
pub(super) struct Reserve<C> {
    window: SlidingWindowLimiter<C>,
    opens: Timestamp,
}

impl<C: Clock> Reserve<C> {
    /// Splits a limit: returns the parameters of what is leased, and the share of this process.
    pub(super) fn split(
        config: LeaseConfig,
        part: f64,
        processes: u32,
        clock: C,
    ) -> Result<(LeaseConfig, Self), ShareError> {
        if !(part > 0.0 && part < 1.0) {
            return Err(ShareError::Part { part });
        }
        let limit = config.limit();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a limit is at most 2^40"
        )]
        let reserved = (limit as f64 * part) as u64;
        let share = reserved.checked_div(processes.into()).unwrap_or_default();
        let leased = limit - share * u64::from(processes);
        if share == 0 || leased == 0 {
            return Err(ShareError::TooSmall { limit, part, processes });
        }
        let leased = config.with_limit(leased).map_err(ShareError::Config)?;
        // n buckets of the server touch n + 2 buckets of this clock: one more at each end, and more
        // for the drift.
        let drift =
            (u64::from(config.buckets()) * 2 * u64::from(config.drift_ppm())).div_ceil(1_000_000);
        let buckets = config.buckets() + 2 + u32::try_from(drift).unwrap_or(u32::MAX);
        let interval = config.bucket_len() * buckets;
        let window = WindowConfig::new(buckets as usize, interval)
            .expect("at most 310 buckets of whole milliseconds");
        let opens = clock.now().saturating_add(interval);
        // With short buckets, a window holds fewer permits than the share may have. The rest of the
        // share is not used.
        let share = share.min(SlidingWindowLimiter::max_limit(&window));
        let window = SlidingWindowLimiter::of_buckets_with_clock(window, share, clock)
            .expect("at most the highest limit of the window");
        Ok((leased, Self { window, opens }))
    }

    /// Takes `count` permits of the share at `now`.
    pub(super) fn take(&self, now: Timestamp, count: u64) -> bool {
        now >= self.opens && self.window.try_acquire_at(now, count).is_admitted()
    }
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part { part } => {
                write!(f, "the part of a limit that is set aside is between 0 and 1, not {part}")
            }
            Self::TooSmall { limit, part, processes } => write!(
                f,
                "a part of {part} of {limit} permits is less than a permit for each of {processes} processes, or leaves nothing to lease"
            ),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl Error for ShareError {}
