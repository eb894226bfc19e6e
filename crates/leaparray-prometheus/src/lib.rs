#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// On docs.rs, which compiles with a nightly toolchain: each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(doc, doctest))))]
// Without a client, nothing reads a collector; only `prometheus-client` has native histograms.
#![cfg_attr(not(feature = "prometheus-client"), allow(dead_code))]

mod bounds;
#[cfg(feature = "prometheus-client")]
mod client;
mod collector;
mod family;
#[cfg(feature = "http")]
mod http;
mod labels;
mod native;
#[cfg(feature = "prometheus")]
mod protobuf;
mod reading;

pub use collector::RegistryCollector;
#[cfg(feature = "http")]
pub use http::{Exposition, ExpositionBody, ExpositionError};
