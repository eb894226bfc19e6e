//! Histograms of response times, as plain data, and the bins that all of them share.

mod bins;
mod config;
mod error;
mod latency;
mod layout;
#[cfg(all(test, not(loom)))]
mod tests;
mod thresholds;

pub use config::HistogramConfig;
pub use error::HistogramConfigError;
pub use latency::LatencyHistogram;
pub(crate) use layout::Layout;
