#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// On docs.rs, which compiles with a nightly toolchain: each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(doc, doctest))))]
// Without a feature, the names of metrics are unused.
#![cfg_attr(not(any(feature = "meter", feature = "otlp")), allow(dead_code))]

mod convention;
#[cfg(feature = "meter")]
mod meter;
#[cfg(feature = "otlp")]
mod otlp;

#[cfg(feature = "meter")]
pub use meter::observe;
#[cfg(feature = "otlp")]
pub use otlp::OtlpSource;
