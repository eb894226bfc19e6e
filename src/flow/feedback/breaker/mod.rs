//! Adaptive client-side throttling.
#![expect(clippy::inline_always, reason = "a decision is a clock, a load and a comparison")]

mod chance;
mod config;
mod error;
mod evidence;
mod last_pass;
mod random;

use std::ptr;

pub use config::AdaptiveBreakerConfig;
pub use error::AdaptiveBreakerConfigError;
pub use random::{RandomSource, SeededRandom, ThreadRandom};

use crate::flow::contract::lend;
use crate::flow::contract::{Account, Ask, Refusal, Retry};
use crate::flow::feedback::FeedbackPermit;
use crate::flow::feedback::feedback_permit::sealed::{Admission, Decide};
use crate::flow::feedback::in_force::InForce;
use crate::flow::feedback::outcomes::OutcomeWindows;
use crate::flow::watch::WatchedState;
use crate::metric::MetricEvent;
use crate::node::Reason;
use crate::node::{OnDrop, Outcome};
use crate::time::{Clock, MonotonicClock, Timestamp};
use crate::window::SlidingWindow;
use chance::{Chance, Threshold};
use evidence::{Counts, Geometry, Rule};
use last_pass::{LastPass, ProbePace};

/// A breaker that drops requests to a failing backend before they are sent. It implements the
/// adaptive throttling of the chapter *Handling Overload* of Google's *Site Reliability
/// Engineering*, with the window, the forced probes and a recovery like those of
/// [go-zero](https://github.com/zeromicro/go-zero)'s breaker.
///
/// Each request is dropped with a [probability](AdaptiveBreakerConfig::drop_probability) that grows
/// with the share of requests that the backend does not accept. No request is dropped while the
/// backend accepts at least 1 in [`k`](AdaptiveBreakerConfig::k) requests. The breaker has no open
/// and closed state, and no threshold that all clients reach at once. A dropped request counts as a
/// request, so a backend that rejects every request gets fewer and fewer of them.
///
/// A call in flight counts nowhere: a call that will never end and a call that takes a minute look
/// the same. So a backend that accepts every request loses none, however long it takes. A backend
/// that hangs is noticed when the time-outs of its callers [reject](FeedbackPermit::reject) the
/// permits. A request that is [cancelled](FeedbackPermit::cancel) tells nothing about the backend.
///
/// # Probes
///
/// A *probe* is a request that is let through although it would be dropped. A request becomes a
/// probe if no request that might have been dropped got through during the [probe
/// interval](AdaptiveBreakerConfig::probe_interval). If threads race for a probe, one of them gets
/// it. The time of a request that got through by chance is noted to a sixteenth of the interval, so
/// a probe may be early by that much. If a probe is [cancelled](FeedbackPermit::cancel), and no
/// other request got through since, the next request that would be dropped is a probe. If another
/// one did, the next probe follows from its time; or, if that one is cancelled later, from the time
/// of the cancelled probe.
///
/// # Recovery
///
/// The backend *works* from the newest bucket back, as long as it has not failed from any of these
/// buckets on: as long as rejections and acceptances exceed `k` times the acceptances by at most
/// one. Let t be the time since the end of the oldest of these buckets with an acceptance. Then a
/// request gets through with the probability s<sup>1 − t / recovery</sup>, where s is the one by
/// the counts. So the load of the backend grows by the same factor in equal times, at any rate. If
/// the backend fails again, s applies at once.
///
/// After the last rejection, no request is dropped from the time
///
/// > probe interval + response time + time between two requests + recovery + 3 buckets
///
/// on, if the backend accepts each request, and at least one in each half of the window. The
/// [`recovery`](AdaptiveBreakerConfig::recovery) is 5 seconds by default, and at most half of the
/// window.
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
/// are dropped. Other changes take effect within one slice, which is a sixteenth of a bucket or
/// less, by default 8.4 ms: dropped requests and the progress of a recovery up to a slice late, and
/// buckets that leave the window up to a slice early. An acceptance that races with the first
/// rejection may also take effect that late.
///
/// The breaker uses `now` as it is. If time goes back, it uses the window of that time, without the
/// buckets that newer buckets have replaced. A request that ends more than a window before the
/// newest bucket is late and is not counted. So while time is that far behind, no request is
/// dropped.
///
/// # Cost
///
/// An admitted request reads the clock, and one word that is rarely written. Its end is counted in
/// a cell of its thread, and so is a dropped request. A request that may be dropped also draws a
/// random number. The first decision in a slice adds up the window, and so do a rejection, and an
/// acceptance while requests are dropped.
///
/// ```
/// use leaparray::flow::{AdaptiveBreaker, LimiterExt, Reason};
/// use leaparray::flow::breaker::{AdaptiveBreakerConfig, SeededRandom};
/// use leaparray::{Clock, ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let (config, random) = (AdaptiveBreakerConfig::default(), SeededRandom::new(1));
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
/// assert!(breaker.drop_probability_at(breaker.clock().now()) > 0.99);
/// let refusal = breaker.try_acquire().refusal().expect("one in a thousand gets through");
/// assert_eq!(refusal.reason, Reason::Failing);
/// // After a second without an admitted request, the next request is a probe.
/// clock.advance(Duration::from_secs(1));
/// assert!(breaker.try_acquire().is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
//
// # Changes in place
//
// A decision, and the end of a request, uses one `Settings`, with its own cached threshold. An end
// is counted in the window of its settings, and takes a turn of their threshold. Then it looks
// whether they are still in force. A change puts other settings into force, and takes a turn of the
// threshold of the former ones. One of the two turns is later, and has acquired the other. If it is
// the one of the end, the end finds the change, and takes a turn of the new threshold as well. If
// it is the one of the change, the count is in the sum from which the change makes the new
// threshold.
#[derive(Debug)]
pub struct AdaptiveBreaker<C = MonotonicClock, R = ThreadRandom> {
    settings: InForce<Settings<C>>,
    last_pass: LastPass,
    random: R,
    clock: C,
    /// The requests: accepted by the backend (successes, with response times), rejected by it
    /// (exceptions), dropped (blocks), and cancelled.
    outcomes: OutcomeWindows<C>,
}

/// A configuration, and what follows from it.
#[derive(Debug)]
struct Settings<C> {
    config: AdaptiveBreakerConfig,
    rule: Rule,
    pace: ProbePace,
    chance: Chance,
    window: SlidingWindow<C>,
}

impl<C: Clock + Clone> Settings<C> {
    fn new(config: AdaptiveBreakerConfig, outcomes: &OutcomeWindows<C>, clock: &C) -> Self {
        Self {
            config,
            rule: config.rule(),
            pace: ProbePace::new(config.probe_interval, config.window.interval()),
            chance: Chance::new(config.window.bucket_nanos()),
            window: outcomes.get(config.window, clock),
        }
    }
}

impl AdaptiveBreaker {
    /// Creates a breaker with its own [`MonotonicClock`].
    #[must_use]
    pub fn new(config: AdaptiveBreakerConfig) -> Self {
        Self::with_clock(config, MonotonicClock::new())
    }
}

impl<C: Clock + Clone> AdaptiveBreaker<C> {
    /// Creates a breaker that reads clones of `clock`.
    #[must_use]
    pub fn with_clock(config: AdaptiveBreakerConfig, clock: C) -> Self {
        Self::with_source(config, clock, ThreadRandom)
    }
}

impl<C: Clock + Clone, R: RandomSource> AdaptiveBreaker<C, R> {
    /// Creates a breaker that reads clones of `clock`, and draws random numbers from `random`.
    #[must_use]
    pub fn with_source(config: AdaptiveBreakerConfig, clock: C, random: R) -> Self {
        let outcomes = OutcomeWindows::new();
        Self {
            settings: InForce::new(Settings::new(config, &outcomes, &clock)),
            last_pass: LastPass::new(),
            random,
            clock,
            outcomes,
        }
    }
}

impl<C: Clock, R: RandomSource> AdaptiveBreaker<C, R> {
    /// Decides whether a request goes ahead at `now`. A dropped request is counted.
    //
    // One place makes the refusal. Two places would write it to memory, and the caller would wait
    // for the store.
    #[inline(always)]
    fn draw_lots(&self, now: Timestamp) -> Result<Admission, Refusal> {
        let settings = self.settings.get();
        let threshold = settings.chance.get(now).unwrap_or_else(|| self.renew(settings, now));
        // The time of the last pass that the request has replaced by its own.
        let token = if threshold.is_zero() {
            LastPass::NOT_NOTED
        } else {
            self.draw(settings, now, threshold)?
        };
        Ok(Admission { start: now, token })
    }

    #[cold]
    fn renew(&self, settings: &Settings<C>, now: Timestamp) -> Threshold {
        settings.chance.renew(now, || self.threshold(settings, now))
    }

    /// Admits the request by chance or as a probe, and returns the time of the last pass that it
    /// has replaced.
    #[inline(always)]
    fn draw(
        &self,
        settings: &Settings<C>,
        now: Timestamp,
        threshold: Threshold,
    ) -> Result<u64, Refusal> {
        if !threshold.drops(self.random.next_u32()) {
            return Ok(self.last_pass.note(now, settings.pace));
        }
        let probe_at = match self.last_pass.probe(now, settings.pace) {
            Ok(before) => return Ok(before),
            Err(probe_at) => probe_at,
        };
        settings.window.add_at(now, MetricEvent::Block, 1);
        let retry = if threshold.drops_most() { Retry::At(probe_at) } else { Retry::Unknown };
        Err(Refusal::new(Reason::Failing, retry))
    }
}

impl<C: Clock, R> AdaptiveBreaker<C, R> {
    /// Counts the outcome of a request.
    #[inline]
    fn count(&self, now: Timestamp, admission: Admission, outcome: Outcome) {
        let settings = self.settings.get();
        let changes = match outcome {
            Outcome::Exception => {
                settings.window.add_at(now, MetricEvent::Exception, 1);
                true
            }
            Outcome::Success => {
                let rt = now.as_nanos().saturating_sub(admission.start.as_nanos());
                settings.window.record_success_nanos_at(now, rt);
                // An acceptance cannot raise the probability.
                settings.chance.drops_any()
            }
            Outcome::Cancelled => {
                settings.window.add_at(now, MetricEvent::Cancelled, 1);
                self.last_pass.take_back(admission.start, admission.token);
                false
            }
        };
        if changes {
            self.take_turn(settings, now);
        }
    }

    /// Updates the probability, after the end of a request was counted under these settings.
    #[inline(never)]
    fn take_turn<'a>(&'a self, mut settings: &'a Settings<C>, now: Timestamp) {
        loop {
            settings.chance.take_turn(now, || self.threshold(settings, now));
            let in_force = self.settings.get();
            if ptr::eq(settings, in_force) {
                return;
            }
            settings = in_force;
        }
    }

    fn threshold(&self, settings: &Settings<C>, now: Timestamp) -> Threshold {
        Threshold::of(self.probability(settings, settings.chance.slice_end(now)))
    }

    fn probability(&self, settings: &Settings<C>, now: Timestamp) -> f64 {
        let Settings { config: AdaptiveBreakerConfig { window: config, .. }, window, .. } =
            settings;
        let geometry = Geometry {
            buckets: config.sample_count() as u64,
            bucket_nanos: config.bucket_nanos(),
            age_nanos: config.bucket_and_age(now).1,
        };
        let all = Counts::of(self.outcomes.sums(window, 0, now, Counts::EVENTS));
        let newest = self.outcomes.sums_of_newest(window, now, Counts::EVENTS).map(Counts::of);
        settings.rule.drop_probability(geometry, all, newest)
    }

    /// Returns the probability with which a request is dropped at `now`, from 0 to 1. This call
    /// adds up the window; a decision may use an earlier sum.
    #[must_use]
    pub fn drop_probability_at(&self, now: Timestamp) -> f64 {
        self.probability(self.settings.get(), now)
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> AdaptiveBreakerConfig {
        self.settings.get().config
    }

    /// Returns the clock that this breaker reads.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// Returns the window in which the breaker counts the ends of requests: a
    /// [success](MetricEvent::Success) and a response time for each request that the backend
    /// accepted, an [exception](MetricEvent::Exception) for each request that it rejected, a
    /// [block](MetricEvent::Block) for each request that was dropped, and
    /// [`Cancelled`](MetricEvent::Cancelled) for each request that ended without an outcome.
    ///
    /// If the breaker has got [another window](Self::reconfigure), this is the new one, with the
    /// ends since then.
    ///
    /// The window is meant for reading. An event that is recorded in it directly affects decisions
    /// from the next slice on.
    #[must_use]
    pub fn window(&self) -> &SlidingWindow<C> {
        &self.settings.get().window
    }
}

impl<C: Clock + Clone, R> AdaptiveBreaker<C, R> {
    /// Changes the configuration. The breaker forgets nothing:
    ///
    /// - The counts stay. If the window changes, those stay that lie in buckets of a former window
    ///   within the new one, as far as the former one reaches back.
    /// - The time of the last probe stays, and the next one comes by the new interval.
    /// - A permit in flight ends under the new configuration, with its policy for a
    ///   [drop](AdaptiveBreakerConfig::on_drop).
    ///
    /// A decision that begins after this call uses the new configuration. A decision beside it uses
    /// the former or the new one, never a mixture, and perhaps without the requests that end beside
    /// it. No decision and no end of a request waits for a change.
    ///
    /// A breaker keeps each configuration and each window that it has had, and uses it again if it
    /// is set again.
    ///
    /// ```
    /// use leaparray::{Clock, WindowConfig};
    /// use leaparray::flow::breaker::AdaptiveBreakerConfig;
    /// use leaparray::flow::{AdaptiveBreaker, LimiterExt};
    /// use std::time::Duration;
    ///
    /// let breaker = AdaptiveBreaker::new(AdaptiveBreakerConfig::default());
    /// for _ in 0..20 {
    ///     breaker.try_acquire().map(|permit| permit.reject());
    /// }
    /// assert!(breaker.drop_probability_at(breaker.clock().now()) > 0.0);
    /// breaker.reconfigure(breaker.config().min_requests(100));
    /// assert_eq!(breaker.drop_probability_at(breaker.clock().now()), 0.0);
    /// let longer = WindowConfig::new(60, Duration::from_secs(30))?;
    /// breaker.reconfigure(AdaptiveBreakerConfig::default().window(longer));
    /// assert!(breaker.drop_probability_at(breaker.clock().now()) > 0.0);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    pub fn reconfigure(&self, config: AdaptiveBreakerConfig) {
        let is_it = |settings: &Settings<C>| settings.config == config;
        let make = || Settings::new(config, &self.outcomes, &self.clock);
        let (former, _) = self.settings.replace(is_it, make);
        // Turns of the former threshold, and then of the one in force.
        self.take_turn(former, self.clock.now());
    }
}

impl<C: Clock, R: RandomSource> Decide for AdaptiveBreaker<C, R> {
    type Clock = C;

    #[inline(always)]
    fn clock(&self) -> &C {
        Self::clock(self)
    }

    fn on_drop(&self) -> OnDrop {
        self.settings.get().config.on_drop
    }

    #[inline(always)]
    fn admit(&self, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        self.draw_lots(ask.now())
    }

    #[inline(always)]
    fn end(&self, now: impl FnOnce() -> Timestamp, admission: Admission, outcome: Outcome) {
        self.count(now(), admission, outcome);
    }
}

impl<C: Clock, R> Account for AdaptiveBreaker<C, R> {
    #[inline(always)]
    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Returns whether the window has no request, and a probe is due, as it is of a new breaker.
    fn is_as_new(&self, now: Timestamp) -> bool {
        let settings = self.settings.get();
        let sums = self.outcomes.sums(&settings.window, 0, now, Counts::EVENTS);
        sums == [0; 3] && self.last_pass.is_due(now, settings.pace)
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        WatchedState::Breaker { drop_probability: self.drop_probability_at(now) }
    }
}

lend!(FeedbackPermit, [C: Clock, R: RandomSource] AdaptiveBreaker<C, R>, learns);
