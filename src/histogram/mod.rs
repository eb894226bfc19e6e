//! Histograms of response times, as plain data, and the bins that all of them share.

mod bins;
mod bucket;
mod compact;
mod config;
mod counts;
mod error;
mod from_buckets;
mod latency;
mod layout;
mod merge;
mod quantile;
#[cfg(feature = "serde")]
mod serde_config;
#[cfg(feature = "serde")]
mod serde_latency;
mod summary;
#[cfg(all(test, not(loom)))]
mod tests;
mod thresholds;

pub use bucket::HistogramBucket;
pub use compact::CompactHistogram;
pub use config::HistogramConfig;
pub use error::{HistogramConfigError, HistogramScaleError};
pub use from_buckets::{HistogramBuckets, HistogramBucketsError};
pub use latency::LatencyHistogram;
pub(crate) use layout::Layout;
pub(crate) use quantile::rank;
pub use summary::LatencyQuantiles;
