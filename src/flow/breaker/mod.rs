//! A breaker that goes by what the backend accepts.
#![expect(clippy::inline_always, reason = "a decision is a clock, a load and a comparison")]

mod chance;
mod config;
mod permit;
mod random;

use std::sync::Arc;

pub use config::BreakerConfig;
pub use permit::BreakerPermit;
pub use random::{RandomSource, SeededRandom, ThreadRandom};

use super::{Decision, Reason, Refusal};
use crate::metric::MetricEvent;
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, MonotonicClock, Timestamp, saturating_nanos};
use crate::window::SlidingWindow;
use chance::{Chance, Threshold};

/// Drops requests to a backend that rejects too many of them, before they are sent; what the chapter
/// *Handling Overload* of Google's *Site Reliability Engineering* calls adaptive throttling, with the
/// window and the forced probes of go-zero's breaker.
///
/// Each request is dropped with a [probability](BreakerConfig::drop_probability) that grows with what the
/// backend rejects: none while it accepts more than 1 in k of all. There is nothing to open or to close,
/// and no threshold that clients reach together. What is dropped counts as a request, so that a backend
/// which fails entirely gets less and less. One that would be dropped is let through nevertheless if for the
/// probe interval none has got through of those that might have been dropped: of those who race for that, one.
/// Those that got through by chance are noted to a sixteenth of the interval, by which a probe may be early.
///
/// # Which time, and how fresh
///
/// A decision goes by all requests that had ended before it, as far as their counts are in the window: a
/// rejection has the probability added up before it returns, and so has an acceptance while anything is
/// dropped. What changes by itself, as time leaves buckets behind and as what is dropped is counted, is
/// looked at every slice, a sixteenth of a bucket or less: 8.4 ms by default. As late as that may be seen an
/// acceptance that races with the rejection with which dropping begins.
///
/// A `now` is taken for what it is: if time goes back, the window is what it was then, less what newer buckets
/// have taken the place of. What ends then is late, if it is a window ago, and counts for nothing; so as long
/// as time is that far behind, nothing is dropped.
///
/// # What it costs
///
/// An admitted request reads the clock and one word that is seldom written. One that may be dropped draws a
/// random number besides; a dropped one is counted in the bucket in hand. A rejection adds up the window, which
/// takes less than a microsecond.
///
/// ```
/// use leaparray::flow::{AdaptiveBreaker, BreakerConfig, Reason, SeededRandom};
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let (config, random) = (BreakerConfig::default(), SeededRandom::new(1));
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let breaker = AdaptiveBreaker::with_source(config, clock.clone(), random);
/// for _ in 0..1_000 {
///     let (permit, _) = breaker.try_acquire().into_result()?;
///     permit.accept();
/// }
/// // The backend is down. Ten seconds later hardly anything reaches it.
/// for _ in 0..11_000 {
///     if let Ok((permit, _)) = breaker.try_acquire().into_result() {
///         permit.reject();
///     }
///     clock.advance(Duration::from_millis(1));
/// }
/// assert!(breaker.drop_probability() > 0.99);
/// let refusal = breaker.try_acquire().refusal().expect("one in a thousand gets through");
/// assert_eq!(refusal.reason, Reason::Failing);
/// // A second without any is enough for one to see how it is now.
/// clock.advance(Duration::from_secs(1));
/// assert!(breaker.try_acquire().is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AdaptiveBreaker<C = MonotonicClock, R = ThreadRandom> {
    chance: Chance,
    /// When a request last got through that might have been dropped, in nanoseconds.
    last_pass: AtomicU64,
    probe_nanos: u64,
    /// So far ahead of a `now`, the last pass was before time went back.
    back_nanos: u64,
    random: R,
    config: BreakerConfig,
    /// Successes were accepted, exceptions rejected by the backend, blocks dropped here.
    window: SlidingWindow<C>,
}

impl AdaptiveBreaker {
    /// A breaker with a precise clock of its own.
    #[must_use]
    pub fn new(config: BreakerConfig) -> Self {
        Self::with_clock(config, MonotonicClock::new())
    }
}

impl<C: Clock> AdaptiveBreaker<C> {
    /// A breaker that reads the given clock.
    #[must_use]
    pub fn with_clock(config: BreakerConfig, clock: C) -> Self {
        Self::with_source(config, clock, ThreadRandom)
    }
}

impl<C: Clock, R: RandomSource> AdaptiveBreaker<C, R> {
    /// A breaker that reads the given clock, and draws from the given source.
    #[must_use]
    pub fn with_source(config: BreakerConfig, clock: C, random: R) -> Self {
        Self {
            chance: Chance::new(*config.window()),
            last_pass: AtomicU64::new(0),
            probe_nanos: saturating_nanos(config.probe_interval()),
            back_nanos: saturating_nanos(config.probe_interval().max(config.window().interval())),
            random,
            config,
            window: SlidingWindow::with_clock(*config.window(), clock),
        }
    }

    /// Asks for a request now.
    ///
    /// When it makes sense to ask again is advice, for any draw may come out otherwise: at once, while fewer
    /// are dropped than not, and else when the next one that is dropped will be let through. Each time counts
    /// as a request, and makes it more likely to be dropped.
    #[inline(always)]
    pub fn try_acquire(&self) -> Decision<BreakerPermit<&Self, C, R>> {
        BreakerPermit::try_acquire(self)
    }

    /// Asks for a request at `now`.
    #[inline(always)]
    pub fn try_acquire_at(&self, now: Timestamp) -> Decision<BreakerPermit<&Self, C, R>> {
        BreakerPermit::try_acquire_at(self, now)
    }

    /// Like [`try_acquire`](Self::try_acquire), for a permit that is to live as long as it likes.
    ///
    /// ```
    /// use leaparray::flow::{AdaptiveBreaker, BreakerConfig};
    /// use std::sync::Arc;
    ///
    /// let breaker = Arc::new(AdaptiveBreaker::new(BreakerConfig::default()));
    /// let (permit, _) = breaker.try_acquire_owned().into_result()?;
    /// std::thread::spawn(move || permit.accept()).join().unwrap();
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    #[inline(always)]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Decision<BreakerPermit<Arc<Self>, C, R>> {
        self.try_acquire_owned_at(self.clock().now())
    }

    /// The same at `now`.
    #[inline(always)]
    pub fn try_acquire_owned_at(
        self: &Arc<Self>,
        now: Timestamp,
    ) -> Decision<BreakerPermit<Arc<Self>, C, R>> {
        match self.decide(now) {
            // Only now: who is dropped need not write what all of them share.
            Ok(()) => Decision::Admitted(BreakerPermit::of(Arc::clone(self))),
            Err(refusal) => Decision::Refused(refusal),
        }
    }

    /// Whether a request goes ahead at `now`; if not, it is counted.
    //
    // Drawn for in one place: two refusals would meet in memory, and be waited for.
    #[inline(always)]
    fn decide(&self, now: Timestamp) -> Result<(), Refusal> {
        let threshold = self.chance.get(now).unwrap_or_else(|| self.renew(now));
        if threshold.is_zero() { Ok(()) } else { self.draw(now, threshold) }
    }

    #[cold]
    fn renew(&self, now: Timestamp) -> Threshold {
        self.chance.renew(now, || self.threshold(now))
    }

    #[inline(always)]
    fn draw(&self, now: Timestamp, threshold: Threshold) -> Result<(), Refusal> {
        if !threshold.drops(self.random.next_u32()) {
            self.note_pass(now);
            return Ok(());
        }
        let Err(probe_at) = self.probe(now) else { return Ok(()) };
        self.window.add_at(now, MetricEvent::Block, 1);
        let retry_at = if threshold.drops_most() { probe_at } else { now };
        Err(Refusal::new(Reason::Failing, Some(retry_at)))
    }

    /// Lets who was to be dropped through, if nobody was for so long; says when that will be, if not.
    #[inline]
    fn probe(&self, now: Timestamp) -> Result<(), Timestamp> {
        let nanos = now.as_nanos();
        // Relaxed, all of it: the value is all there is, and its own order decides.
        let mut last = self.last_pass.load(Ordering::Relaxed);
        // What lies a little ahead is another thread's, which was not held up.
        let has_gone_back = last.saturating_sub(nanos) >= self.back_nanos;
        if nanos.saturating_sub(last) >= self.probe_nanos || has_gone_back {
            match self.last_pass.compare_exchange(last, nanos, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(found) => last = found,
            }
        }
        Err(Timestamp::from_nanos(last.saturating_add(self.probe_nanos)))
    }

    /// Notes that one got through, to a sixteenth of the interval: who does so has others read it anew.
    fn note_pass(&self, now: Timestamp) {
        let nanos = now.as_nanos();
        // Relaxed: as for `probe`.
        let last = self.last_pass.load(Ordering::Relaxed);
        if nanos.saturating_sub(last) > self.probe_nanos / 16 {
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            // If another one was faster, that has noted it.
            let _ = self.last_pass.compare_exchange(last, nanos, success, failure);
        }
    }
}

impl<C: Clock, R> AdaptiveBreaker<C, R> {
    /// Counts how a request has ended.
    #[inline]
    fn count(&self, now: Timestamp, event: MetricEvent) {
        self.window.add_at(now, event, 1);
        // An acceptance cannot make it more likely to be dropped.
        if event == MetricEvent::Exception || self.chance.drops_any() {
            self.tell(now);
        }
    }

    #[inline(never)]
    fn tell(&self, now: Timestamp) {
        self.chance.tell(now, || self.threshold(now));
    }

    fn threshold(&self, now: Timestamp) -> Threshold {
        Threshold::of(self.drop_probability_at(now))
    }

    /// The probability with which a request is dropped now.
    #[must_use]
    pub fn drop_probability(&self) -> f64 {
        self.drop_probability_at(self.clock().now())
    }

    /// The probability with which a request is dropped at `now`, from 0 to 1: added up, where a decision
    /// may go by what was added up last.
    #[must_use]
    pub fn drop_probability_at(&self, now: Timestamp) -> f64 {
        use MetricEvent::{Block, Exception, Success};
        let [success, exception, block] = self.window.sums_at(now, [Success, Exception, Block]);
        let total = success.saturating_add(exception).saturating_add(block);
        self.config.drop_probability(total, success)
    }

    /// What it goes by.
    pub const fn config(&self) -> &BreakerConfig {
        &self.config
    }

    /// The clock that it reads.
    #[must_use]
    pub const fn clock(&self) -> &C {
        self.window.clock()
    }

    /// The window in which it counts: [successes](MetricEvent::Success) were accepted by the backend,
    /// [exceptions](MetricEvent::Exception) rejected, and [blocks](MetricEvent::Block) dropped here.
    ///
    /// For reading. What is recorded in it counts as if it had come through the breaker, from the next slice
    /// on.
    #[must_use]
    pub const fn window(&self) -> &SlidingWindow<C> {
        &self.window
    }
}
