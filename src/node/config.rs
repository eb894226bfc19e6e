//! The two windows of a node.

use std::time::Duration;

use super::error::NodeConfigError;
use crate::histogram::HistogramConfig;
use crate::time::WindowConfig;

/// The geometry of a [`ResourceNode`](crate::ResourceNode): a short window and a long window over
/// the same counts. By default, these are the last second and the last minute. With a
/// [histogram](Self::with_histogram), the node also has the distribution of the response times.
///
/// With the feature `serde`, it can be [read from a file](crate::guide::configuration),
/// with the fields `short`, `long` and `histogram`. If one of them is left out, it has its default.
///
/// ```
/// use leaparray::{NodeConfig, WindowConfig};
/// use std::time::Duration;
///
/// let default = NodeConfig::default();
/// assert_eq!(default.short().to_string(), "2 × 500ms");
/// assert_eq!(default.long().to_string(), "120 × 500ms");
///
/// let finer = NodeConfig::new(
///     WindowConfig::new(10, Duration::from_secs(1))?,
///     WindowConfig::new(600, Duration::from_secs(60))?,
/// )?;
/// assert_eq!(finer.short().bucket_len(), Duration::from_millis(100));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeConfig {
    short: WindowConfig,
    long: WindowConfig,
    histogram: Option<HistogramConfig>,
}

impl NodeConfig {
    /// Creates a geometry whose short window is a [view](crate::SlidingWindow::view) over the long
    /// window.
    ///
    /// # Errors
    ///
    /// Returns a [`NodeConfigError`] if the short window cannot be a view over the long window, or
    /// if a second is not a whole number of buckets of the long window:
    /// [`poll_seconds`](crate::NodeReading::poll_seconds) adds buckets up to whole seconds.
    pub const fn new(short: WindowConfig, long: WindowConfig) -> Result<Self, NodeConfigError> {
        if let Err(error) = short.buckets_per_sample(&long) {
            return Err(NodeConfigError::NoView(error));
        }
        if !NANOS_PER_SEC.is_multiple_of(long.bucket_nanos()) {
            return Err(NodeConfigError::NoWholeSeconds { bucket_len: long.bucket_len() });
        }
        Ok(Self { short, long, histogram: None })
    }

    /// Adds histograms of response times with that resolution. By default, a node has none.
    ///
    /// ```
    /// use leaparray::{HistogramConfig, NodeConfig};
    ///
    /// let config =
    ///     NodeConfig::default().with_histogram(HistogramConfig::with_relative_error(0.01)?);
    /// assert_eq!(config.histogram().map(HistogramConfig::scale), Some(6));
    /// assert_eq!(NodeConfig::default().histogram(), None);
    /// # Ok::<_, leaparray::histogram::HistogramConfigError>(())
    /// ```
    #[must_use]
    pub const fn with_histogram(self, histogram: HistogramConfig) -> Self {
        Self { histogram: Some(histogram), ..self }
    }

    /// Returns the short window.
    #[must_use]
    pub const fn short(&self) -> &WindowConfig {
        &self.short
    }

    /// Returns the long window. Requests are recorded in its buckets.
    #[must_use]
    pub const fn long(&self) -> &WindowConfig {
        &self.long
    }

    /// Returns the resolution of the histograms of response times; `None` if the node has none.
    #[must_use]
    pub const fn histogram(&self) -> Option<HistogramConfig> {
        self.histogram
    }
}

pub(crate) const NANOS_PER_SEC: u64 = 1_000_000_000;

impl Default for NodeConfig {
    /// Returns a short window of 2 × 500 ms and a long window of 120 × 500 ms.
    fn default() -> Self {
        const DEFAULT: NodeConfig = {
            let short = WindowConfig::new(2, Duration::from_secs(1));
            let long = WindowConfig::new(120, Duration::from_secs(60));
            match (short, long) {
                (Ok(short), Ok(long)) => match NodeConfig::new(short, long) {
                    Ok(config) => config,
                    Err(_) => panic!("half a second divides both"),
                },
                _ => panic!("half a second divides both"),
            }
        };
        DEFAULT
    }
}
