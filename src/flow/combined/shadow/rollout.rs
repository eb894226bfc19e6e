//! The mode of a limiter, which changes while threads decide by it, and its counts.

use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::time::Duration;

use super::mode::Mode;
use crate::flow::watch::{Watch, WatchedState};
use crate::sync::{AtomicU64, Ordering, zeros};
use crate::time::Timestamp;

/// How far ahead of the clock the time of a request may be, and for how long one note of a request
/// that was not decided on holds, in mode [`Off`](Mode::Off).
const SECOND: Duration = Duration::from_secs(1);

/// Returns the time, or a second after the clock's if that is earlier: one wrong time does not end
/// refunds for ever. A limiter without a clock has no bound.
fn bound(now: Timestamp, clock: Timestamp) -> Timestamp {
    if clock == Timestamp::MIN { now } else { now.min(clock.saturating_add(SECOND)) }
}

/// The [`Mode`] of one or several [`Shadow`](super::Shadow)s, and their counts.
///
/// Each decision reads the mode once, and is by that mode as a whole. A decision that begins after
/// [`set_mode`](Self::set_mode) has returned is by the new mode, or by a later one. A change stops
/// no decision, and forgets nothing: the limiter keeps its state.
///
/// # Orderings
///
/// Relaxed: the mode is complete in one word, and the counts order nothing. The exact share of
/// [`Mode::Requests`] follows from the modification order of one counter.
#[derive(Debug)]
pub struct Rollout {
    mode: AtomicU64,
    counts: CachePadded<Counts>,
}

/// On cache lines of their own: each decision reads the mode.
#[derive(Debug)]
struct Counts {
    /// The sum of the shares of the requests that [`Mode::Requests`] has selected from.
    drawn: AtomicU64,
    would_refuse: AtomicU64,
    would_delay: AtomicU64,
    enforced: AtomicU64,
    /// The latest time of a request that went ahead otherwise than the limiter has decided, or a
    /// later time.
    passed_until: AtomicU64,
}

/// The counts of the [`Shadow`](super::Shadow)s of a [`Rollout`] since it was made: plain data.
///
/// Read one by one: while other threads decide, they are of slightly different times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowCounts {
    /// The requests that went ahead although the limiter has refused them.
    pub would_refuse: u64,
    /// The requests that went ahead at once although the limiter has told them to wait.
    pub would_delay: u64,
    /// The requests that were refused, or have to wait, because the limiter is enforced. They are
    /// among the refusals of the node as well.
    pub enforced: u64,
}

impl Rollout {
    /// Creates a rollout in a mode.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        let [drawn, would_refuse, would_delay, enforced, passed_until] = zeros();
        let counts = Counts { drawn, would_refuse, would_delay, enforced, passed_until };
        Self { mode: AtomicU64::new(mode.to_word()), counts: CachePadded::new(counts) }
    }

    /// Returns the mode.
    #[must_use]
    #[inline]
    pub fn mode(&self) -> Mode {
        Mode::of_word(self.mode.load(Ordering::Relaxed))
    }

    /// Changes the mode. Other threads may decide at the same time.
    ///
    /// After [`Mode::Off`], the limiter knows nothing of the requests before: begin with
    /// [`Mode::Shadow`], and enforce a window once it is full of requests.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode.to_word(), Ordering::Relaxed);
    }

    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> ShadowCounts {
        let Counts { would_refuse, would_delay, enforced, .. } = &*self.counts;
        let [would_refuse, would_delay, enforced] =
            [would_refuse, would_delay, enforced].map(|count| count.load(Ordering::Relaxed));
        ShadowCounts { would_refuse, would_delay, enforced }
    }

    /// Returns whether a refusal or a wait of a request in that mode is carried out, and counts it
    /// if it is. With a share of requests, this is the draw.
    pub(super) fn carries_out(&self, mode: Mode, key: Option<u64>) -> bool {
        let carries_out = match mode {
            Mode::Requests(share) => {
                let parts = u64::from(share.parts_per_million());
                share.selects(self.counts.drawn.fetch_add(parts, Ordering::Relaxed))
            }
            mode => mode.is_enforced_for(key),
        };
        if carries_out {
            self.count_enforced();
        }
        carries_out
    }

    /// Counts a request that is refused or has to wait.
    pub(super) fn count_enforced(&self) {
        self.counts.enforced.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that goes ahead although the limiter has refused it. `clock` is the time of
    /// the limiter's clock.
    pub(super) fn would_refuse(&self, now: Timestamp, clock: Timestamp) {
        self.counts.would_refuse.fetch_add(1, Ordering::Relaxed);
        self.counts.passed_until.fetch_max(bound(now, clock).as_nanos(), Ordering::Relaxed);
    }

    /// Counts a request that goes ahead at once although the limiter has told it to wait.
    pub(super) fn would_delay(&self, now: Timestamp, clock: Timestamp) {
        self.counts.would_delay.fetch_add(1, Ordering::Relaxed);
        self.counts.passed_until.fetch_max(bound(now, clock).as_nanos(), Ordering::Relaxed);
    }

    /// Notes a request for which the limiter was not asked. Writes once a second.
    pub(super) fn off(&self, now: Timestamp, clock: impl FnOnce() -> Timestamp) {
        let until = &self.counts.passed_until;
        if now.as_nanos() > until.load(Ordering::Relaxed) {
            let latest = bound(now, clock()).saturating_add(SECOND);
            until.fetch_max(latest.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns whether each request of that time went ahead as the limiter has decided. Only then
    /// may its permits be given back: a request that went ahead against a refusal has none, and the
    /// limiter would take those of another one.
    ///
    /// The request that is given back has noted itself, if it went ahead otherwise: at its own
    /// time, or at a bound. A time beyond the bound is not known to be later.
    pub(super) fn decided_at(&self, now: Timestamp, clock: Timestamp) -> bool {
        let is_later = now.as_nanos() > self.counts.passed_until.load(Ordering::Relaxed);
        is_later && bound(now, clock) == now
    }

    /// Returns the state for a monitor, which contains the state of the limiter.
    pub(super) fn watched(&self, limiter: WatchedState) -> WatchedState {
        WatchedState::Shadow {
            mode: self.mode(),
            counts: self.counts(),
            limiter: Box::new(limiter),
        }
    }
}

/// A rollout of several shadows, as those of the keys of a limiter.
impl Watch for Arc<Rollout> {
    fn watched(&self) -> Option<WatchedState> {
        Some(Rollout::watched(self, WatchedState::Nothing))
    }
}
