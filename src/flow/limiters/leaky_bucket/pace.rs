//! The arithmetic of a leaky bucket.

use std::time::Duration;

use crate::flow::contract::{Rate, Refusal};
use crate::flow::permits::{Back, CLOSED, NotAdmitted, Rule, Take, Taken};
use crate::node::Reason;
use crate::time::{Timestamp, saturating_nanos};

/// The due time while no request has been admitted.
const NEVER: u64 = 0;

/// The settings of a leaky bucket: plain data.
///
/// The state of a bucket is the due time of the last admitted request, in nanoseconds, or
/// [`NEVER`].
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub(super) rate: Rate,
    /// In nanoseconds.
    pub(super) max_wait: u64,
    /// The due time of the last request that was admitted under other settings, or [`NEVER`].
    carried: u64,
}

impl Pace {
    pub(super) const fn new(rate: Rate, max_wait: Duration) -> Self {
        Self { rate, max_wait: saturating_nanos(max_wait), carried: NEVER }
    }

    /// Returns the earliest due time of a request for `permits`, if `latest` is the due time of the
    /// last admitted request; `None` if it is after the end of time.
    #[inline]
    fn due(&self, latest: u64, permits: u64) -> Option<u64> {
        if latest == NEVER { Some(NEVER) } else { self.rate.after(latest, permits) }
    }
}

impl Rule for Pace {
    const REASON: Reason = Reason::WaitTooLong;

    #[inline]
    fn refusal_until(time: Timestamp) -> Refusal {
        Refusal::due(Self::REASON, time)
    }

    /// Returns the word of a bucket in which a request for one permit goes ahead at `since`. A
    /// request for n permits is due n − 1 intervals later.
    fn new_word(&self, since: u64) -> u64 {
        // A time that is not on the grid may be less than a nanosecond too early.
        let less = u64::from(!self.rate.is_whole());
        self.rate.before(since, 1).map_or(NEVER, |before| before + less)
    }

    /// A request that cannot wait, and would have to, takes no permits, and is refused until it is
    /// due.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn decide(&self, latest: u64, take: Take) -> Result<Taken, NotAdmitted> {
        let Take { now, permits, can_wait } = take;
        let Some(due) = self.due(latest, permits) else {
            // The due time is after the end of time.
            return Err(if latest == CLOSED { NotAdmitted::Closed } else { NotAdmitted::Never });
        };
        let max_wait = if can_wait { self.max_wait } else { 0 };
        let wait = due.saturating_sub(now);
        if wait > max_wait {
            return Err(NotAdmitted::Until(due - max_wait));
        }
        // A due time of zero would mean that no request has been admitted.
        let mut word = due.max(now).max(NEVER + 1);
        if word == CLOSED {
            // The last nanosecond of time, whose word has another meaning. A request in an idle
            // bucket is still admitted then, with the word of the nanosecond before.
            if due == CLOSED {
                return Err(NotAdmitted::Never);
            }
            word = CLOSED - 1;
        }
        Ok(Taken { word, wait })
    }

    #[inline]
    fn as_new_at(&self, latest: u64) -> Option<u64> {
        self.due(latest, 1)
    }

    /// Due times grow from request to request, so the due time identifies the request: if it is the
    /// word, no later request was placed, or each of them was given back.
    fn refund(&self, latest: u64, back: &Back) -> Option<u64> {
        let placed = back.now.saturating_add(back.wait).max(NEVER + 1);
        // A request that was admitted under other settings took another time.
        if placed <= self.carried || placed != latest {
            return None;
        }
        // The request before was due at that time, or earlier if this one did not wait. A time
        // after an idle time is not on the grid of the earlier ones, and may be less than a
        // nanosecond too early.
        let less = u64::from(back.wait == 0 && !self.rate.is_whole());
        Some(self.rate.before(placed, back.permits).map_or(NEVER, |before| before + less))
    }

    fn succeed(&self, latest: u64, next: Self, _now: u64) -> Self {
        Self { carried: latest, ..next }
    }

    /// The due times that were given out stay.
    fn carry(&self, latest: u64, _next: &Self, _now: u64) -> u64 {
        latest
    }
}
