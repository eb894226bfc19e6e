//! The windows in which a breaker counts the outcomes of requests.

use crate::collections::AppendList;
use crate::metric::MetricEvent;
use crate::time::{Clock, Span, Timestamp, WindowConfig};
use crate::window::SlidingWindow;

/// Each window that a breaker has had. A breaker counts in one of them. If it gets another one, the
/// buckets of the former ones that lie within the new one still count.
///
/// # Eras
///
/// A window is not emptied when the outcomes so far no longer count. Instead, each *era* of a
/// breaker has times of its own: an era begins two intervals after the one before it, so that the
/// outcomes of that one are no longer in the window, also if one of them is recorded late.
#[derive(Debug)]
pub(super) struct OutcomeWindows<C>(AppendList<SlidingWindow<C>>);

impl<C> OutcomeWindows<C> {
    pub(super) fn new() -> Self {
        Self(AppendList::new())
    }
}

impl<C: Clock + Clone> OutcomeWindows<C> {
    /// Returns the window of a geometry.
    pub(super) fn get(&self, config: WindowConfig, clock: &C) -> SlidingWindow<C> {
        let is_it = |window: &SlidingWindow<C>| *window.config() == config;
        let make = || SlidingWindow::with_clock(config, clock.clone());
        let (_, window) = self.0.find_or_append(is_it, make, usize::MAX).expect("never full");
        SlidingWindow::clone(window)
    }
}

impl<C: Clock> OutcomeWindows<C> {
    /// Returns the sums of some events over a window at `now`, in an era.
    pub(super) fn sums<const K: usize>(
        &self,
        window: &SlidingWindow<C>,
        era: u64,
        now: Timestamp,
        events: [MetricEvent; K],
    ) -> [u64; K] {
        let in_era = time_in(window.config(), era, now);
        let start = || window.framed().span(in_era).start();
        let sums = window.as_view().sums(in_era, events);
        self.with_others(sums, window, era, now, start, events)
    }

    /// Returns the sums of some events over the newest bucket of a window at `now`, the newest two,
    /// and so on.
    pub(super) fn sums_of_newest<const K: usize>(
        &self,
        window: &SlidingWindow<C>,
        now: Timestamp,
        events: [MetricEvent; K],
    ) -> impl Iterator<Item = [u64; K]> {
        let view = window.as_view();
        let mut newest = [0; K];
        (0..window.config().sample_count() as u64).map_while(move |age| {
            add(&mut newest, view.sums_of_sample(now, age, events)?);
            let start = || window.framed().sample(now, age).map_or(now, |it| it.start());
            Some(self.with_others(newest, window, 0, now, start, events))
        })
    }

    /// Adds the sums of the other windows from `start`, in the times of `window`, up to `now`.
    fn with_others<const K: usize>(
        &self,
        mut sums: [u64; K],
        window: &SlidingWindow<C>,
        era: u64,
        now: Timestamp,
        start: impl Fn() -> Timestamp,
        events: [MetricEvent; K],
    ) -> [u64; K] {
        for other in self.0.iter().filter(|other| other.config() != window.config()) {
            let since_first = era_nanos(window.config()).saturating_mul(era);
            let start = start().as_nanos().saturating_sub(since_first);
            let [start, now] =
                [Timestamp::from_nanos(start), now].map(|time| time_in(other.config(), era, time));
            // No further back than the other window reaches: there may be counts of earlier eras.
            let start = start.max(other.framed().span(now).start());
            if let Some(numbers) = Span::until_now(start, now).buckets(other.config()) {
                add(&mut sums, other.array().sums(numbers, events));
            }
        }
        sums
    }
}

/// Returns the time in a window of an era.
pub(super) const fn time_in(window: &WindowConfig, era: u64, now: Timestamp) -> Timestamp {
    let since_first = era_nanos(window).saturating_mul(era);
    Timestamp::from_nanos(now.as_nanos().saturating_add(since_first))
}

/// Returns the time from the start of an era to the start of the next one.
pub(super) const fn era_nanos(window: &WindowConfig) -> u64 {
    let interval = window.bucket_nanos() * window.sample_count() as u64;
    interval.saturating_mul(2)
}

fn add<const K: usize>(sums: &mut [u64; K], more: [u64; K]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}
