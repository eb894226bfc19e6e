//! Configurations, read from text and written back.

mod refusals;
mod service;
mod shapes;
