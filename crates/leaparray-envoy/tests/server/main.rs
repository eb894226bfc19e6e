//! The servers of gRPC and HTTP in this process.
#![cfg(feature = "server")]
#![forbid(unsafe_code)]

mod bounds;
mod fallback;
mod world;
