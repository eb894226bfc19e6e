//! `hdrhistogram`: a histogram with bins of two significant digits, from 1 µs to a minute.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;
use hdrhistogram::sync::SyncHistogram;
use leaparray::MonotonicClock;

use super::{Peer, QUANTILES};

/// A histogram behind a mutex.
pub(super) struct Locked(Mutex<Histogram<u64>>);

/// A histogram that collects the histograms of its recorders.
pub(super) struct Recorded(Mutex<SyncHistogram<u64>>);

impl Peer for Locked {
    /// `Histogram<u64>` behind a `std::sync::Mutex`, two significant digits, 1 µs to 60 s.
    const NAME: &'static str = "hdrhistogram, mutex";

    fn new(_: &MonotonicClock) -> Self {
        Self(Mutex::new(histogram()))
    }

    fn recorder(&self) -> impl FnMut(u32) {
        |rt| self.lock().record(rt.into()).expect("a value in range")
    }

    fn quantiles(&self) -> Option<[f64; 4]> {
        Some(quantiles(&self.lock()))
    }
}

impl Locked {
    fn lock(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer for Recorded {
    /// The same, with a `sync::Recorder` for each thread; a read refreshes the `SyncHistogram`,
    /// which waits until each recorder records again, and is measured while there is no recorder.
    const NAME: &'static str = "hdrhistogram, `Recorder`";

    fn new(_: &MonotonicClock) -> Self {
        Self(Mutex::new(histogram().into_sync()))
    }

    fn recorder(&self) -> impl FnMut(u32) {
        let mut recorder = self.lock().recorder();
        move |rt| recorder.record(rt.into()).expect("a value in range")
    }

    fn quantiles(&self) -> Option<[f64; 4]> {
        let mut histogram = self.lock();
        histogram.refresh();
        Some(quantiles(&histogram))
    }
}

impl Recorded {
    fn lock(&self) -> MutexGuard<'_, SyncHistogram<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 60_000_000_000, 2).expect("valid bounds")
}

fn quantiles(histogram: &Histogram<u64>) -> [f64; 4] {
    let mut values = histogram.value_at_quantiles(QUANTILES);
    [(); 4].map(|()| values.next().expect("ascending quantiles") as f64)
}
