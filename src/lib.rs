//! Lock-free sliding-window metrics: exact counts, rates and response times of the last second.
//!
//! Request threads record events in a [`SlidingWindow`]. Monitors, limiters and breakers read
//! counts, rates and response times from it, over the last second or any other interval. Recording
//! and reading are lock-free. Each event is counted once, in the bucket of its time, even if
//! threads race or stall while a bucket is replaced.
//!
//! The crate is the statistics core of a flow-control library such as
//! [Sentinel](https://github.com/alibaba/Sentinel). The documentation of an item names its
//! counterpart in Sentinel, if there is one.
//!
//! ```
//! use leaparray::{MetricEvent, SlidingWindow, WindowConfig};
//! use std::time::Duration;
//!
//! let window = SlidingWindow::new(WindowConfig::new(10, Duration::from_secs(1))?);
//! window.add(MetricEvent::Pass, 1);
//! window.record_success(Duration::from_micros(250));
//! assert!(window.now().qps(MetricEvent::Pass) >= 1.0);
//! assert_eq!(window.now().ledger().recorded().sum(MetricEvent::Pass), 1);
//! # Ok::<_, leaparray::time::ConfigError>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | count events and response times | [`SlidingWindow`], with a [`WindowConfig`] |
//! | read the same counts over a shorter interval | [`SlidingWindow::view`] |
//! | find every count: in the window, expired or late | [`WindowReading::ledger`] |
//! | choose the clock | [`MonotonicClock`], [`CachedClock`](time::CachedClock), [`ForwardClock`](time::ForwardClock), [`ManualClock`] |
//! | measure one resource: rates, response times, requests in flight | [`ResourceNode`], with an [`Entry`] for each request |
//! | read percentiles of response times, and their distribution | [`NodeConfig::with_histogram`], [`LatencyHistogram`]; see the [guide](guide::percentiles) |
//! | look up a resource by its name | [`Registry`], which returns a [`Resource`] |
//! | read all resources at one time | [`RegistryReading::snapshot`](registry::RegistryReading::snapshot), which returns a [`RegistrySnapshot`](registry::RegistrySnapshot) |
//! | export each second of all resources once | [`RegistryReading::poll_seconds`](registry::RegistryReading::poll_seconds), or in one pass with other readings [`RegistryReading::visit_seconds`](registry::RegistryReading::visit_seconds) |
//! | limit, pace or drop requests | the controllers in [`flow`] |
//! | read configurations from a file, and write snapshots as JSON | the feature `serde`; see the [guide](guide::configuration) |
//! | write and read the lines of Sentinel's metric log | `MetricLine`, with the feature `sentinel-format` |
//! | count values of your own | [`LeapArray`](array::LeapArray), over any [`Bucket`](array::Bucket) |
//! | measure the memory of the threads' counters | [`CellMemory::current`](node::CellMemory::current) |
//!
//! The [`guide`] begins with a first request and a first limit. [`reference`](mod@reference) has
//! the facts that concern several items. [`design`] explains the algorithms. [`correctness`] lists
//! what is proved, and how to run the proofs. [`migration`] translates the calls of Sentinel,
//! `governor`, `metrics`, `hdrhistogram` and Micrometer.

#![forbid(unsafe_code)]
// On docs.rs, which compiles with a nightly toolchain: each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(doc, doctest))))]

#[cfg(not(target_has_atomic = "64"))]
compile_error!("leaparray needs 64-bit atomics, which this target does not have");

/// From a first request to a fleet of processes: chapters, from common to rare.
#[cfg(any(doc, doctest))]
pub mod guide;

/// Facts that concern several items, and that few users need.
#[cfg(any(doc, doctest))]
pub mod reference;

/// The calls of Sentinel, governor, metrics, hdrhistogram and Micrometer, and their counterparts
/// here.
#[cfg(any(doc, doctest))]
pub mod migration {
    #![doc = include_str!("../docs/migration.md")]
}

/// The data structures and their protocols, and the interleavings that these handle.
#[cfg(any(doc, doctest))]
pub mod design {
    #![doc = include_str!("../docs/design.md")]
}

/// The promises, the argument for each, and the limits of the proofs.
#[cfg(any(doc, doctest))]
pub mod correctness {
    #![doc = include_str!("../docs/CORRECTNESS.md")]
}

/// The README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod array;
mod collections;
pub mod count_window;
pub mod flow;
pub mod histogram;
pub mod metric;
mod metric_array;
pub mod node;
pub mod registry;
pub mod rolling_window;
#[cfg(all(test, not(loom)))]
mod stall_tests;
mod sync;
pub mod time;
pub mod window;

pub use histogram::{HistogramConfig, LatencyHistogram};
pub use metric::{EventCounts, MetricEvent, MetricTotals};
#[cfg(loom)]
#[doc(hidden)]
pub use metric_array::parts;
pub use node::{Entry, NodeConfig, NodeReading, Outcome, Permit, ResourceNode};
pub use registry::{Registry, RegistryConfig, Resource, TrafficType};
#[cfg(loom)]
#[doc(hidden)]
pub use sync::{lock_slots, shadow_all_words, show_all_words, slots_are_locked, slots_were_used};
pub use time::{Clock, ManualClock, MonotonicClock, Timestamp, WindowConfig};
#[cfg(loom)]
#[doc(hidden)]
pub use time::{Source, Steering};
pub use window::{SlidingWindow, WindowReading};
