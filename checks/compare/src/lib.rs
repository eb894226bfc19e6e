//! The page that compares leaparray with other crates. Its code is compiled and run as
//! documentation tests.
#![doc = include_str!("../../../docs/COMPARE.md")]
