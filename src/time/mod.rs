//! Timestamps, clocks, and the buckets into which time is divided.

mod clock;
mod decimal_seconds;
mod divisor;
mod error;
#[cfg(feature = "serde")]
mod serde_config;
#[cfg(feature = "serde")]
pub(crate) mod serde_duration;
#[cfg(feature = "serde")]
pub(crate) mod serde_time;
mod span;
mod timestamp;
mod window_config;

pub use clock::{CachedClock, Clock, ForwardClock, ManualClock, MonotonicClock};
#[cfg(loom)]
pub use clock::{Source, Steering};
pub(crate) use divisor::Divisor;
pub use error::{ConfigError, ParseTimestampError, ViewError};
pub(crate) use span::Span;
pub use timestamp::Timestamp;
pub(crate) use timestamp::{duration_of, saturating_nanos};
pub use window_config::WindowConfig;
pub(crate) use window_config::run;
