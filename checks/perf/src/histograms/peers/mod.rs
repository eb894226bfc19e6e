//! The histograms of other crates, and this crate's.

mod atomic;
mod ddsketch;
mod hdr;
mod ours;
mod prometheus;
mod prometheus_client;

pub(super) use ours::{BUCKETS, NO_HISTOGRAM, Ours, SCALES, bucket_start, config_of, fill, window};

use leaparray::MonotonicClock;

/// The quantiles that are read.
pub(super) const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// A histogram of response times, used as its crate proposes.
pub(super) trait Peer: Sync + Sized + 'static {
    /// The name of the peer in the cases.
    const NAME: &'static str;

    /// Creates an empty histogram. Only histograms with a window have a clock.
    fn new(clock: &MonotonicClock) -> Self;

    /// Returns the operation that records a response time in nanoseconds. Each thread has its own.
    fn recorder(&self) -> impl FnMut(u32);

    /// Records response times. Those of a window are spread evenly over its buckets.
    fn fill(&self, rts: &[u32]) {
        let mut record = self.recorder();
        for &rt in rts {
            record(rt);
        }
    }

    /// Reads the quantiles [`QUANTILES`] of a filled histogram, in nanoseconds. `None` if the crate
    /// has no quantiles.
    fn quantiles(&self) -> Option<[f64; 4]> {
        None
    }

    /// Returns the quantiles as their reader gets them, in nanoseconds: from the crate, or from a
    /// server that scrapes the histogram. `None` if neither can be had here.
    fn estimates(&self) -> Option<[f64; 4]> {
        self.quantiles()
    }
}

/// An operation on a type of peers.
pub(super) trait Visitor {
    fn visit<P: Peer>(&mut self);
}

/// Visits all peers, in the order of the tables.
pub(super) fn visit_all(visitor: &mut impl Visitor) {
    visitor.visit::<Ours<NO_HISTOGRAM>>();
    visitor.visit::<Ours<4>>();
    visitor.visit::<Ours<5>>();
    visitor.visit::<hdr::Locked>();
    visitor.visit::<hdr::Recorded>();
    visitor.visit::<atomic::Atomic>();
    visitor.visit::<ddsketch::Locked>();
    visitor.visit::<prometheus::Usual>();
    visitor.visit::<prometheus::Fine>();
    visitor.visit::<prometheus_client::Native>();
}

/// Converts nanoseconds to seconds.
fn secs(nanos: u32) -> f64 {
    f64::from(nanos) * 1e-9
}
