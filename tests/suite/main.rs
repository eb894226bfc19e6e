//! The interface, with given times or a manual clock. One program, since each further one takes
//! more time to build than to run. Tests that count the memory of a process, or fork it, are
//! programs of their own.

mod adaptive;
mod bad_input;
mod circuit;
mod clocks;
#[cfg(feature = "serde")]
mod configuration;
mod count_window;
mod flow;
mod histogram;
mod latency_window;
#[cfg(feature = "sentinel-format")]
mod metric_line;
mod oracle;
mod panics;
mod pool_growth;
mod rates;
mod recycled_wraps;
mod registry;
mod resource_node;
mod rollover;
#[cfg(feature = "serde")]
mod serialized_times;
mod sliding_window;
#[cfg(feature = "serde")]
mod snapshot_json;
mod threads;
mod worked_examples;
