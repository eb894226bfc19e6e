//! Windows of the last calls.

mod error;
mod times;
mod word;

use std::fmt;
use std::time::Duration;

pub use error::CountWindowError;

use crate::histogram::rank;
use crate::sync::{AtomicU64, Ordering};
use crate::time::saturating_nanos;
use times::Times;
use word::{Call, CallsLayout, CallsState, Place};

/// The outcomes of the last calls, by their number and not by time: the count of exceptions and of
/// slow calls among the last N. Exact at each moment, under any number of threads, and without a
/// lock.
///
/// A call is *slow* if its response time is above a [threshold](Self::slow_above). With
/// [response times](Self::with_response_times), the window also has their quantiles.
///
/// A record takes two compare-exchanges of words that all threads share; a reading of the
/// [totals](Self::totals) is one load. To count from 0 again, create another window. To count calls
/// in time, see [`SlidingWindow`](crate::SlidingWindow), in which threads record without
/// contention.
///
/// ```
/// use leaparray::count_window::CountWindow;
/// use std::time::Duration;
///
/// let last = CountWindow::new(3)?.slow_above(Duration::from_secs(1));
/// last.record_exception(Duration::from_millis(5));
/// last.record_success(Duration::from_secs(2));
/// let totals = last.totals();
/// assert_eq!((totals.calls, totals.exceptions, totals.slow), (2, 1, 1));
///
/// last.record_success(Duration::from_millis(5));
/// last.record_success(Duration::from_millis(5));
/// // The exception is no longer among the last three.
/// assert_eq!(last.totals().exception_ratio(), Some(0.0));
/// # Ok::<_, leaparray::count_window::CountWindowError>(())
/// ```
///
/// # Algorithm
///
/// One word has the sums, the position of the next call, and the last call. A thread that records a
/// call
///
/// 1. writes the last call to its slot, if no other thread has,
/// 2. reads the oldest call from the slot of its own,
/// 3. replaces the word by one with its call, without the oldest.
///
/// If the word has changed in the meantime, the thread retries. Any thread can make the first step
/// for a stalled one, so no thread waits, and each new word has the exact sums of the last N calls.
///
/// The word has the number of the lap around the slots in the bits that the sums leave: 31 for a
/// window of 1,000 calls. If a thread stalls before its last step while other threads record
/// exactly as many laps as the number can tell apart, or a multiple, and leave the same sums, its
/// step may subtract another call than the oldest.
//
// # Orderings
//
// - `word`: a replacement releases, and each load acquires. A thread that reads the oldest call has
//   acquired the word, and with it the slots of all calls but the last. If the thread that replaced
//   the word has found a slot written by another one, the coherence of the slot orders the reading
//   of a later thread.
// - `slots`: an exchange releases, and each load acquires. The thread that has written a call to a
//   slot had loaded the state with that call, so a thread that finds the call finds that state or a
//   later one.
pub struct CountWindow {
    layout: CallsLayout,
    len: u32,
    slow_nanos: u64,
    word: AtomicU64,
    /// The lap and the call that each slot has last.
    slots: Box<[AtomicU64]>,
    times: Option<Times>,
}

/// The counts of the last calls. Returned by [`CountWindow::totals`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CountTotals {
    /// The number of calls, at most the length of the window.
    pub calls: u64,
    /// The number of calls that ended with an exception.
    pub exceptions: u64,
    /// The number of calls that were slow, with an exception or without.
    pub slow: u64,
}

impl CountWindow {
    /// The maximum number of calls.
    pub const MAX_LEN: u32 = 4_000;

    /// Creates a window of the last `len` calls, of which none is slow.
    ///
    /// # Errors
    ///
    /// Returns a [`CountWindowError`] if `len` is 0 or above [`MAX_LEN`](Self::MAX_LEN).
    pub fn new(len: u32) -> Result<Self, CountWindowError> {
        if len == 0 || len > Self::MAX_LEN {
            return Err(CountWindowError { len, max: Self::MAX_LEN });
        }
        let layout = CallsLayout::new(len);
        let first = CallsState {
            lap: 1,
            is_full: false,
            position: 0,
            slow: 0,
            exceptions: 0,
            last: Call::default(),
        };
        Ok(Self {
            layout,
            len,
            slow_nanos: u64::MAX,
            word: AtomicU64::new(layout.pack(first)),
            slots: (0..len).map(|_| AtomicU64::new(0)).collect(),
            times: None,
        })
    }

    /// Sets the response time above which a call is slow.
    #[must_use]
    pub fn slow_above(mut self, slow_above: Duration) -> Self {
        self.slow_nanos = saturating_nanos(slow_above);
        self
    }

    /// Keeps the response times of the calls, for [quantiles](Self::quantile). A record then takes
    /// a further compare-exchange, and a call 8 bytes.
    #[must_use]
    pub fn with_response_times(mut self) -> Self {
        self.times = Some(Times::new(self.len));
        self
    }

    /// Returns the maximum number of calls in the window.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "the capacity, which is never 0")]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Records a call that ended without an exception.
    pub fn record_success(&self, rt: Duration) {
        self.record(false, saturating_nanos(rt));
    }

    /// Records a call that ended with an exception.
    pub fn record_exception(&self, rt: Duration) {
        self.record(true, saturating_nanos(rt));
    }

    /// Returns the counts of the last calls, all of one moment.
    #[must_use]
    pub fn totals(&self) -> CountTotals {
        self.totals_of(&self.load())
    }

    /// Returns a window of another length with the last calls of this one, without their response
    /// times.
    pub(crate) fn with_len(&self, len: u32) -> Result<Self, CountWindowError> {
        let window = Self { slow_nanos: self.slow_nanos, ..Self::new(len)? };
        for call in self.calls() {
            window.record_with(call, 0);
        }
        Ok(window)
    }

    /// Returns the last calls of one moment, the oldest first.
    fn calls(&self) -> Vec<Call> {
        loop {
            let state = self.load();
            if self.store_last(&state).is_err() {
                continue;
            }
            let call = |place: Place| {
                let slot = self.slot(place.position).load(Ordering::Acquire);
                self.layout.call_of(slot, place.lap)
            };
            // A slot with another call has a later one, and the state has changed.
            if let Some(calls) = self.places(&state).map(call).collect() {
                return calls;
            }
        }
    }

    /// Returns the places of the last calls, that of the oldest first.
    fn places(&self, state: &CallsState) -> impl Iterator<Item = Place> + use<> {
        let CallsState { lap, position, is_full, .. } = *state;
        let before = if is_full { position..self.len.into() } else { 0..0 };
        let before = before.map(move |position| Place { lap: lap.wrapping_sub(1), position });
        before.chain((0..position).map(move |position| Place { lap, position }))
    }

    /// Records a call, and returns the counts with it.
    pub(crate) fn record_call(&self, is_exception: bool, is_slow: bool) -> CountTotals {
        self.record_with(Call { is_exception, is_slow }, 0)
    }

    /// Returns the quantile `q` of the response times of the last calls, such as 0.99: the response
    /// time that a share `q` of them do not exceed, by the nearest rank. `None` if there are none,
    /// if the window keeps none, or if `q` is below 0, above 1 or NaN.
    ///
    /// It is exact if no thread is recording during this call. A call that is recorded during it
    /// may count or not, and so may the call that leaves the window for it. A response time above
    /// 78 hours counts as 78 hours.
    ///
    /// ```
    /// use leaparray::count_window::CountWindow;
    /// use std::time::Duration;
    ///
    /// let last = CountWindow::new(100)?.with_response_times();
    /// for millis in 1..=200 {
    ///     last.record_success(Duration::from_millis(millis));
    /// }
    /// assert_eq!(last.quantile(0.5), Some(Duration::from_millis(150)));
    /// # Ok::<_, leaparray::count_window::CountWindowError>(())
    /// ```
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let [quantile] = self.quantiles([q]);
        quantile
    }

    /// Returns several quantiles, of the same calls; see [`quantile`](Self::quantile).
    #[must_use]
    pub fn quantiles<const N: usize>(&self, quantiles: [f64; N]) -> [Option<Duration>; N] {
        let mut times = self.response_times();
        times.sort_unstable();
        quantiles.map(|q| {
            let rank = usize::try_from(rank(q, times.len() as u64)?).ok()?;
            Some(Duration::from_nanos(times[rank - 1]))
        })
    }

    /// Returns the response times of the last calls in nanoseconds, in no order.
    fn response_times(&self) -> Vec<u64> {
        let Some(times) = &self.times else { return Vec::new() };
        self.places(&self.load()).filter_map(|place| times.get(place)).collect()
    }

    fn record(&self, is_exception: bool, nanos: u64) {
        self.record_with(Call { is_exception, is_slow: nanos > self.slow_nanos }, nanos);
    }

    fn record_with(&self, call: Call, nanos: u64) -> CountTotals {
        let mut found = self.load();
        loop {
            match self.push(&found, call, nanos) {
                Ok(totals) => return totals,
                Err(other) => found = other,
            }
        }
    }

    /// Adds a call to the calls of `state`. If the state is no longer `state`, returns the new one.
    fn push(&self, state: &CallsState, call: Call, nanos: u64) -> Result<CountTotals, CallsState> {
        self.store_last(state)?;
        let new = self.layout.push(*state, call, self.oldest(state)?);
        self.replace(state, &new)?;
        self.record_time(Place { lap: state.lap, position: state.position }, nanos);
        Ok(self.totals_of(&new))
    }

    /// Records the response time of the call at a place, unless the call has left the window.
    fn record_time(&self, place: Place, nanos: u64) {
        if let Some(times) = &self.times {
            times.record(place, nanos, || self.layout.has_left(place, &self.load()));
        }
    }

    /// Writes the last call to its slot, if that was not done yet. If the state is no longer
    /// `state`, returns the new one.
    ///
    /// A thread replaces a state only after this. So while a slot has a call before the last one,
    /// the state does not change, and a stalled thread that has found that call writes nothing
    /// later.
    fn store_last(&self, state: &CallsState) -> Result<(), CallsState> {
        let Some(place) = self.layout.last_place(state) else { return Ok(()) };
        let slot = self.slot(place.position);
        let found = slot.load(Ordering::Acquire);
        if self.layout.call_of(found, place.lap).is_some() {
            return Ok(());
        }
        // If the slot had a later call, the load above has acquired it, and this load returns a
        // later state.
        let current = self.load();
        if current != *state {
            return Err(current);
        }
        let stored = self.layout.pack_slot(place.lap, state.last);
        // If it fails, another thread has stored the call.
        let _ = slot.compare_exchange(found, stored, Ordering::Release, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the oldest call, which the next one replaces; an empty call if the window is not
    /// full. If the state is no longer `state`, may return the new one.
    fn oldest(&self, state: &CallsState) -> Result<Call, CallsState> {
        if !state.is_full {
            return Ok(Call::default());
        }
        let slot = self.slot(state.position).load(Ordering::Acquire);
        let oldest = self.layout.call_of(slot, state.lap.wrapping_sub(1));
        // Another call in the slot is a later one. The load above has acquired it, so this load
        // returns a later state.
        oldest.ok_or_else(|| self.load())
    }

    fn slot(&self, position: u64) -> &AtomicU64 {
        &self.slots[usize::try_from(position).expect("below the length")]
    }

    fn load(&self) -> CallsState {
        self.layout.unpack(self.word.load(Ordering::Acquire))
    }

    /// Replaces the state. If it is no longer `state`, returns it.
    fn replace(&self, state: &CallsState, new: &CallsState) -> Result<(), CallsState> {
        let [state, new] = [state, new].map(|it| self.layout.pack(*it));
        // Release without Acquire: the load of `state` has acquired it.
        let replaced = self.word.compare_exchange(state, new, Ordering::Release, Ordering::Acquire);
        replaced.map(drop).map_err(|found| self.layout.unpack(found))
    }

    const fn totals_of(&self, state: &CallsState) -> CountTotals {
        CountTotals {
            calls: self.layout.calls(state),
            exceptions: state.exceptions,
            slow: state.slow,
        }
    }
}

impl CountTotals {
    /// Returns the share of the calls that ended with an exception; `None` if there are no calls.
    #[must_use]
    pub fn exception_ratio(&self) -> Option<f64> {
        ratio(self.exceptions, self.calls)
    }

    /// Returns the share of the calls that were slow; `None` if there are no calls.
    #[must_use]
    pub fn slow_ratio(&self) -> Option<f64> {
        ratio(self.slow, self.calls)
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2⁵³")]
fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

impl fmt::Debug for CountWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountWindow")
            .field("len", &self.len)
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn thread_that_has_stalled_for_a_lap_writes_no_earlier_call() {
        let window = CountWindow::new(2).unwrap();
        window.record_exception(Duration::ZERO);
        let stale = window.load();
        for _ in 0..3 {
            window.record_success(Duration::ZERO);
        }
        let slots = || window.slots.iter().map(|it| it.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let before = slots();
        assert_eq!(window.store_last(&stale), Err(window.load()));
        assert_eq!(slots(), before);
    }

    /// A thread stalls before it records its response time, while other threads record any number
    /// of laps.
    #[test]
    fn response_time_of_a_call_that_has_left_is_not_recorded() {
        for calls in [1, 2, 200, 40_000, 66_000] {
            let window = CountWindow::new(1).unwrap().with_response_times();
            let place = Place { lap: window.load().lap, position: 0 };
            for _ in 0..=calls {
                window.record_success(Duration::from_nanos(7));
            }
            window.record_time(place, 1_000);
            assert_eq!(window.quantile(0.5), Some(Duration::from_nanos(7)), "after {calls} calls");
        }
    }
}
