#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// On docs.rs, which compiles with a nightly toolchain: each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg), doc(auto_cfg(hide(doc, doctest))))]

pub mod config;
pub mod quota;
#[cfg(feature = "server")]
pub mod server;
pub mod service;
