//! Events, the counters of one bucket, and their totals.

mod bucket;
mod cell;
mod counter;
mod counts;
mod event;
mod event_counts;
#[cfg(feature = "sentinel-format")]
mod line;
mod second;
#[cfg(feature = "serde")]
mod serde_counts;
mod totals;

pub use bucket::MetricBucket;
pub(crate) use cell::{MetricCell, OwnedWriter};
pub(crate) use counter::CEILING;
pub(crate) use counts::Counts;
pub use event::MetricEvent;
pub use event_counts::EventCounts;
#[cfg(feature = "sentinel-format")]
pub use line::{MetricLine, MetricLineError, ThinLine};
pub use second::SecondMetrics;
pub use totals::MetricTotals;
