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

/// The description of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) name: &'static str,
    /// Whether old response times leave the histogram by themselves.
    pub(super) window: &'static str,
    pub(super) description: &'static str,
}

/// The window of a peer that has none.
const NO_WINDOW: &str = "none";

/// A histogram of response times, used as its crate proposes.
pub(super) trait Peer: Sync + Sized + 'static {
    const ABOUT: About;

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

/// Returns the descriptions of all peers, in the order of the tables.
pub(super) fn all() -> Vec<About> {
    struct List(Vec<About>);
    impl Visitor for List {
        fn visit<P: Peer>(&mut self) {
            self.0.push(P::ABOUT);
        }
    }
    let mut list = List(Vec::new());
    visit_all(&mut list);
    list.0
}

/// Converts nanoseconds to seconds.
fn secs(nanos: u32) -> f64 {
    f64::from(nanos) * 1e-9
}
