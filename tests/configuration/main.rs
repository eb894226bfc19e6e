//! Configurations, read from text and written back.
#![cfg(feature = "serde")]

mod refusals;
mod service;
mod shapes;
