//! The details of one node.

use serde::{Deserialize, Serialize};

use super::events::EventTotals;
use super::positional::positional;
use super::row::Counts;

/// The details of the node that the reader asked for. If no such node is listed, only `t` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "detail")]
#[non_exhaustive]
pub struct Detail {
    /// The id of the node: see [`Listed`](super::Listed); `None` if no such node is listed.
    pub id: Option<u64>,
    /// The number of the newest second that was read.
    pub t: u64,
    /// The details.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeDetail>,
}

/// The details of a listed node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeDetail {
    /// The scale of the histograms; `None` if the node has none.
    pub scale: Option<i8>,
    /// The response times of each second that has some: of the whole history in the first message,
    /// of the seconds since the message before in the others.
    pub seconds: Vec<SecondBins>,
    /// The counts of the short window now.
    pub second: Counts,
    /// The counts of the long window now.
    pub minute: Counts,
    /// The refused requests since the node was made, by reason, in the order of
    /// [`reasons`](super::reasons).
    pub refusals: Vec<u64>,
    /// The refused requests since the node was made, by the name of the limiter, of those that have
    /// one.
    #[serde(default)]
    pub refused_by: Vec<(String, u64)>,
    /// The responses since the node was made, by the class of their status: 1xx to 5xx.
    #[serde(default)]
    pub responses: Vec<u64>,
    /// The counts since the node was made.
    pub lifetime: EventTotals,
    /// Where every count of the node is.
    pub ledger: NodeLedger,
    /// The geometry of the node.
    pub window: Geometry,
}

positional! {
    /// The response times in one second. Serialized as an array in this order.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct SecondBins {
        /// The number of the second since the Unix epoch.
        pub t: u64,
        /// The bins that are not empty, by ascending index.
        pub bins: Vec<Bin>,
    }
}

positional! {
    /// A bin of a histogram. Serialized as an array in this order.
    ///
    /// ```
    /// use leaparray_web::format::Bin;
    ///
    /// let bin: Bin = serde_json::from_str("[-14,3]")?;
    /// let scale = 2;
    /// let bound = |index: i32| f64::from(index).exp2().powf(1.0 / f64::from(1 << scale));
    /// // Three response times of about 0.1 s.
    /// assert!(bin.count == 3 && bound(bin.index) < 0.1 && 0.1 < bound(bin.index + 1));
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Bin {
        /// The index i. At the scale s, the bin has the response times above 2^(i/2^s) and at most
        /// 2^((i+1)/2^s) seconds.
        pub index: i32,
        /// The number of response times.
        pub count: u64,
    }
}

/// Where every count of a node is. At rest, `recorded` is the sum of the three others. See
/// [`LedgerSums`](super::LedgerSums).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeLedger {
    /// The events in the long window.
    pub in_window: u64,
    /// The events in buckets that the window has left.
    pub expired: u64,
    /// The events that were recorded with a time whose bucket was replaced already.
    pub late: u64,
    /// All events, counted by the lifetime totals, which are read after the others.
    pub recorded: u64,
}

/// The geometry of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Geometry {
    /// The short window.
    pub short: WindowGeometry,
    /// The long window.
    pub long: WindowGeometry,
    /// The largest relative error of a quantile; `None` without a histogram.
    pub histogram_error: Option<f64>,
}

positional! {
    /// The geometry of a window. Serialized as an array in this order.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct WindowGeometry {
        /// The interval in seconds.
        pub interval: f64,
        /// The number of buckets.
        pub buckets: usize,
    }
}
