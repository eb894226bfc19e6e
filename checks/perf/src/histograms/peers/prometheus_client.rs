//! `prometheus-client`: a native histogram behind the crate's mutex. A server that scrapes it
//! computes the quantiles.

use leaparray::MonotonicClock;
use prometheus_client::metrics::histogram::{Histogram, NativeHistogramConfig};

use super::{Peer, secs};

/// A native histogram with the bins of scale 4.
pub(super) struct Native(Histogram);

impl Peer for Native {
    /// A native `Histogram` of schema 4, which has the bins of scale 4; no quantiles: the server
    /// computes them, and the crate does not give the counts of bins to its user, so the error
    /// is not measured.
    const NAME: &'static str = "prometheus-client, native";

    fn new(_: &MonotonicClock) -> Self {
        Self(Histogram::new_native(NativeHistogramConfig::with_schema(4)))
    }

    fn recorder(&self) -> impl FnMut(u32) {
        |rt| self.0.observe(secs(rt))
    }
}
