#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// On docs.rs, which compiles with a nightly toolchain: each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(doc, doctest))))]

mod feed;
#[cfg(feature = "recorder")]
mod recorder;

pub use feed::RegistryFeed;
#[cfg(feature = "recorder")]
pub use recorder::WindowRecorder;
