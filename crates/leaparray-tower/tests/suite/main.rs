//! The middleware, alone and with each feature. One program, since each further one takes more time
//! to build than to run.

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "axum")]
mod clients;
mod outbound;
#[cfg(all(feature = "axum", feature = "problem"))]
mod problem;
#[cfg(feature = "axum")]
mod rebuilt;
#[cfg(feature = "retry")]
mod retry;
mod service;
mod text;
#[cfg(feature = "tonic")]
mod tonic;
#[cfg(feature = "tracing")]
mod tracing;
