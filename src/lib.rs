//! Lock-free sliding-window metrics: what happened in the last second, exactly.
//!
//! Request threads record in a [`SlidingWindow`]. Monitors, limiters and breakers read rates, counts and response times of
//! the last second, or of any other interval, from it. Both are lock-free. Every add is counted in the bucket of its time
//! and in no other, even if threads rotate buckets or stall at the same time.
//!
//! ```
//! use leaparray::{MetricEvent, SlidingWindow, WindowConfig};
//! use std::time::Duration;
//!
//! let window = SlidingWindow::new(WindowConfig::new(10, Duration::from_secs(1))?);
//! window.add(MetricEvent::Pass, 1);
//! window.record_success(Duration::from_micros(250));
//! assert!(window.qps(MetricEvent::Pass) >= 1.0);
//! assert_eq!(window.ledger().recorded().sum(MetricEvent::Pass), 1);
//! # Ok::<_, leaparray::ConfigError>(())
//! ```
//!
//! | to | there is |
//! |---|---|
//! | count events and response times | [`SlidingWindow`], over a [`WindowConfig`] |
//! | read another length of the same counts | [`SlidingWindow::view`] |
//! | know where every count has gone | [`SlidingWindow::ledger`] |
//! | choose where `now` comes from | [`MonotonicClock`], [`CachedClock`], [`ManualClock`] |
//! | know one resource: rates, response times, requests in flight | [`ResourceNode`], entered by [`Entry`] |
//! | find a resource by its name | [`Registry`], which gives out [`Resource`]s |
//! | limit, pace and protect on all of that | [`flow`] |
//! | write and read the lines of Sentinel's metric log | `MetricLine`, with the feature `sentinel-format` |
//! | count something of your own | [`LeapArray`], over any [`Bucket`] |
//! | know how much memory the threads' counters take | [`CellMemory::current`] |
//!
//! The [`guide`] says how to choose a geometry and a clock, and what a reading means; [`design`]
//! says how it works, [`correctness`] what is proved, and how to see for yourself.

#![forbid(unsafe_code)]

#[cfg(not(target_has_atomic = "64"))]
compile_error!("leaparray needs 64-bit atomics, which this target does not have");

/// How to choose a geometry and a clock, and what a reading means.
#[cfg(any(doc, doctest))]
pub mod guide {
    #![doc = include_str!("../docs/guide.md")]
}

/// The shape, and the interleavings that it is made for.
#[cfg(any(doc, doctest))]
pub mod design {
    #![doc = include_str!("../docs/design.md")]
}

/// The promises, the memory orderings, and the proofs with their limits.
#[cfg(any(doc, doctest))]
pub mod correctness {
    #![doc = include_str!("../docs/CORRECTNESS.md")]
}

/// The README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod array;
mod collections;
pub mod flow;
mod metric;
mod metric_array;
mod node;
mod registry;
#[cfg(all(test, not(loom)))]
mod stall_tests;
mod sync;
mod time;
mod window;

pub use array::{Bucket, BucketGuard, BucketWrap, CurrentBucket, LeapArray, Ledger};
pub use metric::{MetricBucket, MetricEvent, MetricTotals, SecondMetrics};
#[cfg(feature = "sentinel-format")]
pub use metric::{MetricLine, MetricLineError, ThinLine};
pub use metric_array::CellMemory;
#[cfg(loom)]
#[doc(hidden)]
pub use metric_array::parts;
pub use node::{
    Entry, NodeConfig, NodeConfigError, NodeSnapshot, Reservation, ResourceNode, SecondsCursor,
    WindowSnapshot,
};
pub use registry::{
    Registry, RegistryConfig, RegistryError, Resource, ResourceConfig, Resources, TrafficType,
};
#[cfg(loom)]
#[doc(hidden)]
pub use sync::{shadow_all_words, show_all_words};
pub use time::{
    CachedClock, Clock, ConfigError, ManualClock, MonotonicClock, Timestamp, ViewError,
    WindowConfig,
};
#[cfg(loom)]
#[doc(hidden)]
pub use time::{Source, Steering};
pub use window::{BucketTotals, SlidingWindow};
