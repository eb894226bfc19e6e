//! `sketches-ddsketch`: exponential bins whose relative error is given.

use std::sync::{Mutex, MutexGuard, PoisonError};

use leaparray::MonotonicClock;
use sketches_ddsketch::{Config, DDSketch};

use super::{Peer, QUANTILES, secs};

/// A sketch behind a mutex.
pub(super) struct Locked(Mutex<DDSketch>);

impl Peer for Locked {
    /// `DDSketch` behind a `std::sync::Mutex`, a relative error of 2 %, at most 2,048 bins.
    const NAME: &'static str = "sketches-ddsketch, mutex";

    fn new(_: &MonotonicClock) -> Self {
        Self(Mutex::new(DDSketch::new(Config::new(0.02, 2_048, 1e-9))))
    }

    fn recorder(&self) -> impl FnMut(u32) {
        |rt| self.lock().add(secs(rt))
    }

    fn quantiles(&self) -> Option<[f64; 4]> {
        let sketch = self.lock();
        let quantile = |q| sketch.quantile(q).ok().flatten();
        Some(QUANTILES.map(|q| quantile(q).map_or(f64::NAN, |secs| secs * 1e9)))
    }
}

impl Locked {
    fn lock(&self) -> MutexGuard<'_, DDSketch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
