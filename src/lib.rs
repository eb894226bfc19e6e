#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod account;
mod bucket;
mod cell;
mod clock;
mod error;
mod event;
mod geometry;
mod leap_array;
mod metric_bucket;
mod retired;
mod sync;
mod timestamp;
mod window;
mod wrap;

pub use account::Account;
pub use bucket::Bucket;
pub use clock::{CachedClock, Clock, ManualClock, MonotonicClock};
pub use error::{ConfigError, ViewError};
pub use event::MetricEvent;
pub use geometry::WindowConfig;
pub use leap_array::LeapArray;
pub use metric_bucket::{MetricBucket, MetricTotals};
pub use timestamp::Timestamp;
pub use window::{BucketTotals, SlidingWindow};
pub use wrap::{BucketWrap, CurrentBucket, WrapRef};
