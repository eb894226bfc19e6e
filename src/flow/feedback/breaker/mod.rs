//! Adaptive client-side throttling.
#![expect(clippy::inline_always, reason = "a decision is a clock, a load and a comparison")]

mod chance;
mod config;
mod error;
mod evidence;
mod last_pass;
mod random;
mod settings;
mod sums;

pub use config::BreakerConfig;
pub use error::BreakerConfigError;
pub use random::{RandomSource, SeededRandom, ThreadRandom};

use crate::flow::contract::lend;
use crate::flow::contract::{Account, Ask, Refusal, Retry};
use crate::flow::feedback::FeedbackPermit;
use crate::flow::feedback::feedback_permit::sealed::{Admission, Decide};
use crate::flow::watch::WatchedState;
use crate::metric::MetricEvent;
use crate::node::Reason;
use crate::node::{OnDrop, Outcome};
use crate::time::{Clock, MonotonicClock, Timestamp, saturating_nanos};
use crate::window::SlidingWindow;
use chance::{Chance, Threshold};
use last_pass::LastPass;
use settings::Settings;

/// A breaker that drops requests to a failing backend before they are sent. It implements the
/// adaptive throttling of the chapter *Handling Overload* of Google's *Site Reliability
/// Engineering*, with the window and the forced probes of
/// [go-zero](https://github.com/zeromicro/go-zero)'s breaker.
///
/// Each request is dropped with a [probability](BreakerConfig::drop_probability) that grows with
/// the share of requests that the backend does not accept. No request is dropped while the backend
/// accepts at least 1 in [`k`](BreakerConfig::k) requests. The breaker has no open and closed
/// state, and no threshold that all clients reach at once. A dropped request counts as a request,
/// so a backend that rejects every request gets fewer and fewer of them.
///
/// A *probe* is a request that is let through although it would be dropped. A request becomes a
/// probe if no request that might have been dropped got through during the [probe
/// interval](BreakerConfig::probe_interval). If threads race for a probe, one of them gets it. The
/// time of a request that got through by chance is noted to a sixteenth of the interval, so a probe
/// may be early by that much. If a probe is [cancelled](FeedbackPermit::cancel), and no other
/// request got through since, the next request that would be dropped is a probe. If another one
/// did, the next probe follows from its time; or, if that one is cancelled later, from the time of
/// the cancelled probe.
///
/// # Outage and recovery
///
/// While requests are dropped, the newest tenth of the window decides if the backend has accepted
/// fewer than 1 in 2 · `k` requests there: acceptances from before an outage then count no longer.
/// If the backend has answered too few requests in a tenth, the newest part is longer.
///
/// The backend *works* again from the newest bucket back, as long as it has not failed from any of
/// these buckets on: as long as rejections and acceptances exceed `k` times the acceptances by at
/// most one. Once it has accepted two requests, the probability is multiplied by
/// `1 − t / recovery`, where t is the time since the first accepted request of them, and
/// [`recovery`](BreakerConfig::recovery) is 5 seconds by default, and at most the window. The share
/// of requests that get through is at most four times the share that the backend has accepted in
/// the newest tenth, so that at a high rate one probe does not let thousands of requests through.
/// The share grows with the answers, so a backend recovers later by some response times. If the
/// backend fails again, the full probability applies at once.
///
/// # Backends that hang
///
/// An attempt counts when it begins, and again when it is answered. If it is cancelled, it counts
/// no longer. It is *overdue* if it takes longer than twice the mean response time of the accepted
/// requests, of the window or of its newest tenth, whichever is longer; but not before a tenth of
/// the window, and at the latest after half of it. If the backend has accepted fewer than 1 in 2 ·
/// `k` of the attempts of the newest tenth, it may have become slower, and an attempt is not
/// overdue before three tenths of the window. An overdue attempt counts as a request that was not
/// accepted. The number of overdue attempts is the number of attempts that are old enough, less the
/// answers of the window. A [`forget`](std::mem::forget)-ten permit counts until its bucket leaves
/// the window.
///
/// A *silence* are newest buckets in which the backend has answered fewer than 1 in 2 · `k` of the
/// attempts that have waited for three tenths of the window. The acceptances before a silence count
/// no longer. So with the default window, the first drop comes 3 to 3.5 seconds after the last
/// answer of a backend that hangs, if there were more than `min_requests` attempts since. A few
/// answers do not end the silence.
///
/// No request to a backend with equal response times of at most three tenths of the window is
/// dropped, also not after a start, a jump of the load, a jump of the response time, or both jumps
/// at once. If the response time is longer, and was not known before, requests are dropped until
/// the first answers come. The [reference](crate::reference::adaptive_breaker) has the numbers. A
/// window of one bucket has neither recovery nor overdue attempts.
///
/// # Refusals
///
/// A refusal has the reason [`Reason::Failing`]. Its time to ask again is only advice, because each
/// decision is random. It is the time of the next probe while more than half of the requests are
/// dropped, and otherwise unknown. Each attempt counts as a request, whatever number of permits it
/// asks for, and so raises the probability.
///
/// # Freshness
///
/// A decision is based on all requests that ended before it and whose counts are in the window: a
/// rejection updates the probability before it returns, and so does an acceptance while requests
/// are dropped. Other changes take effect after at most one slice, which is a sixteenth of a bucket
/// or less, by default 8.4 ms: buckets that leave the window, dropped requests, attempts that
/// become overdue, the progress of a recovery, and cancellations. An acceptance that races with the
/// first rejection may also take effect that late.
///
/// The breaker uses `now` as it is. If time goes back, it uses the window of that time, without the
/// buckets that newer buckets have replaced. A request that ends more than a window before the
/// newest bucket is late and is not counted. So while time is that far behind, no request is
/// dropped.
///
/// # Cost
///
/// An admitted request reads the clock, and one word that is rarely written, and is counted in a
/// cell of its thread. A request that may be dropped also draws a random number, and a dropped
/// request is counted in a cell as well. The first decision in a slice adds up the window, and so
/// do a rejection, and an acceptance while requests are dropped. While requests are dropped or wait
/// for long, it also reads buckets one by one, up to all of them.
///
/// ```
/// use leaparray::flow::{AdaptiveBreaker, LimiterExt, Reason};
/// use leaparray::flow::breaker::{BreakerConfig, SeededRandom};
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let (config, random) = (BreakerConfig::default(), SeededRandom::new(1));
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let breaker = AdaptiveBreaker::with_source(config, clock.clone(), random);
/// for _ in 0..1_000 {
///     let permit = breaker.try_acquire().at_once()?;
///     permit.accept();
/// }
/// // The backend rejects every request. Eleven seconds later, few requests reach it.
/// for _ in 0..11_000 {
///     if let Ok(permit) = breaker.try_acquire().at_once() {
///         permit.reject();
///     }
///     clock.advance(Duration::from_millis(1));
/// }
/// assert!(breaker.drop_probability() > 0.99);
/// let refusal = breaker.try_acquire().refusal().expect("one in a thousand gets through");
/// assert_eq!(refusal.reason, Reason::Failing);
/// // After a second without an admitted request, the next request is a probe.
/// clock.advance(Duration::from_secs(1));
/// assert!(breaker.try_acquire().is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AdaptiveBreaker<C = MonotonicClock, R = ThreadRandom> {
    chance: Chance,
    last_pass: LastPass,
    settings: Settings,
    random: R,
    /// The requests: admitted (passes), accepted by the backend (successes, with response times),
    /// rejected by the backend (exceptions), dropped (blocks), and cancelled. Passes and
    /// cancellations are counted when the request began.
    window: SlidingWindow<C>,
}

impl AdaptiveBreaker {
    /// Creates a breaker with its own [`MonotonicClock`].
    #[must_use]
    pub fn new(config: BreakerConfig) -> Self {
        Self::with_clock(config, MonotonicClock::new())
    }
}

impl<C: Clock> AdaptiveBreaker<C> {
    /// Creates a breaker that reads `clock`.
    #[must_use]
    pub fn with_clock(config: BreakerConfig, clock: C) -> Self {
        Self::with_source(config, clock, ThreadRandom)
    }
}

impl<C: Clock, R: RandomSource> AdaptiveBreaker<C, R> {
    /// Creates a breaker that reads `clock`, and draws random numbers from `random`.
    #[must_use]
    pub fn with_source(config: BreakerConfig, clock: C, random: R) -> Self {
        Self {
            chance: Chance::new(config.window),
            last_pass: LastPass::new(saturating_nanos(config.window.interval())),
            settings: Settings::new(config),
            random,
            window: SlidingWindow::with_clock(config.window, clock),
        }
    }

    /// Decides whether a request goes ahead at `now`. A dropped request is counted.
    //
    // One place makes the refusal. Two places would write it to memory, and the caller would wait
    // for the store.
    #[inline(always)]
    fn draw_lots(&self, now: Timestamp) -> Result<Admission, Refusal> {
        let threshold = self.chance.get(now).unwrap_or_else(|| self.renew(now));
        // The time of the last pass that the request has replaced by its own.
        let token =
            if threshold.is_zero() { LastPass::NOT_NOTED } else { self.draw(now, threshold)? };
        self.window.add_at(now, MetricEvent::Pass, 1);
        Ok(Admission { start: now, token })
    }

    #[cold]
    fn renew(&self, now: Timestamp) -> Threshold {
        self.chance.renew(now, || self.threshold(now))
    }

    /// Admits the request by chance or as a probe, and returns the time of the last pass that it
    /// has replaced.
    #[inline(always)]
    fn draw(&self, now: Timestamp, threshold: Threshold) -> Result<u64, Refusal> {
        if !threshold.drops(self.random.next_u32()) {
            return Ok(self.last_pass.note(now, self.settings.probe_nanos()));
        }
        let probe_at = match self.last_pass.probe(now, self.settings.probe_nanos()) {
            Ok(before) => return Ok(before),
            Err(probe_at) => probe_at,
        };
        self.window.add_at(now, MetricEvent::Block, 1);
        let retry = if threshold.drops_most() { Retry::At(probe_at) } else { Retry::Unknown };
        Err(Refusal::new(Reason::Failing, retry))
    }
}

impl<C: Clock, R> AdaptiveBreaker<C, R> {
    /// Counts the outcome of a request.
    #[inline]
    fn count(&self, now: Timestamp, admission: Admission, outcome: Outcome) {
        let changes = match outcome {
            Outcome::Exception => {
                self.window.add_at(now, MetricEvent::Exception, 1);
                true
            }
            Outcome::Success => {
                let rt = now.as_nanos().saturating_sub(admission.start.as_nanos());
                self.window.record_success_nanos_at(now, rt);
                // An acceptance cannot raise the probability.
                self.chance.drops_any()
            }
            Outcome::Cancelled => {
                // In the bucket of its pass, so that both count nothing together, whatever buckets
                // are added up.
                self.window.add_at(admission.start, MetricEvent::Cancelled, 1);
                self.last_pass.take_back(admission.start, admission.token);
                false
            }
        };
        if changes {
            self.take_turn(now);
        }
    }

    /// Updates the probability, after the end of a request was counted or the settings were
    /// changed.
    #[inline(never)]
    fn take_turn(&self, now: Timestamp) {
        self.chance.take_turn(now, || self.threshold(now));
    }

    /// Returns the configuration.
    pub fn config(&self) -> BreakerConfig {
        self.settings.config()
    }

    /// Replaces the configuration now; see [`set_config_at`](Self::set_config_at).
    ///
    /// # Errors
    ///
    /// Returns a [`BreakerConfigError`] if the window is not the window of the breaker.
    pub fn set_config(&self, config: BreakerConfig) -> Result<(), BreakerConfigError> {
        self.set_config_at(self.clock().now(), config)
    }

    /// Replaces the configuration at `now`. The breaker keeps its counts and the time of the last
    /// probe. A decision that begins after this call uses the new settings; a decision beside it
    /// may use some of each.
    ///
    /// Changes take turns by a lock, which no decision and no end of a request takes.
    ///
    /// # Errors
    ///
    /// Returns a [`BreakerConfigError`] if the window is not the window of the breaker. Then
    /// nothing is changed.
    ///
    /// ```
    /// use leaparray::flow::{AdaptiveBreaker, LimiterExt};
    /// use leaparray::flow::breaker::BreakerConfig;
    ///
    /// let breaker = AdaptiveBreaker::new(BreakerConfig::default());
    /// for _ in 0..20 {
    ///     breaker.try_acquire().map(|permit| permit.reject());
    /// }
    /// assert!(breaker.drop_probability() > 0.0);
    /// breaker.set_config(breaker.config().min_requests(100))?;
    /// assert_eq!(breaker.drop_probability(), 0.0);
    /// # Ok::<_, leaparray::flow::breaker::BreakerConfigError>(())
    /// ```
    pub fn set_config_at(
        &self,
        now: Timestamp,
        config: BreakerConfig,
    ) -> Result<(), BreakerConfigError> {
        self.settings.set(config)?;
        // A turn: a thread that has read former settings does not replace the word that follows
        // from here.
        self.take_turn(now);
        Ok(())
    }

    /// Returns the clock that this breaker reads.
    #[must_use]
    pub const fn clock(&self) -> &C {
        self.window.clock()
    }

    /// Returns the window in which the breaker counts: a [pass](MetricEvent::Pass) for each request
    /// that got through, in the bucket in which it began; a [success](MetricEvent::Success) and a
    /// response time for each request that the backend accepted, an
    /// [exception](MetricEvent::Exception) for each request that it rejected, a
    /// [block](MetricEvent::Block) for each request that was dropped, and
    /// [`Cancelled`](MetricEvent::Cancelled) for each request that ended without an outcome, in the
    /// bucket in which it began, so that it takes its pass back there. Other ends are counted in
    /// the bucket in which the request ended.
    ///
    /// The window is meant for reading. An event that is recorded in it directly affects decisions
    /// from the next slice on.
    #[must_use]
    pub const fn window(&self) -> &SlidingWindow<C> {
        &self.window
    }
}

impl<C: Clock, R: RandomSource> Decide for AdaptiveBreaker<C, R> {
    type Clock = C;

    #[inline(always)]
    fn clock(&self) -> &C {
        Self::clock(self)
    }

    fn on_drop(&self) -> OnDrop {
        self.settings.on_drop()
    }

    #[inline(always)]
    fn admit(&self, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        self.draw_lots(ask.now())
    }

    #[inline(always)]
    fn end(&self, now: Timestamp, admission: Admission, outcome: Outcome) {
        self.count(now, admission, outcome);
    }
}

impl<C: Clock, R> Account for AdaptiveBreaker<C, R> {
    #[inline(always)]
    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        WatchedState::Breaker { drop_probability: self.drop_probability_at(now) }
    }
}

lend!(FeedbackPermit, [C: Clock, R: RandomSource] AdaptiveBreaker<C, R>);
