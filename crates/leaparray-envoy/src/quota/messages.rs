//! The messages to and from the state machine: names, reports, limits, actions and refusals.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::strategy::Strategy;

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub(super) u64);

/// The name of a bucket: keys with values, in the order of the keys. Clones are cheap.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketId(Arc<[(String, String)]>);

impl BucketId {
    /// The longest name: the bytes of all keys and values, and 16 for each.
    pub const MAX_BYTES: usize = 4_096;

    /// Returns the length of the name; `None` without entries.
    pub(super) fn bytes(&self) -> Option<usize> {
        let bytes = |(key, value): &(String, String)| key.len() + value.len() + 32;
        (!self.0.is_empty()).then(|| self.0.iter().map(bytes).sum())
    }

    /// Creates the name of these entries, in whatever order they come.
    pub fn new<K: Into<String>, V: Into<String>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into()));
        let mut entries: Vec<_> = entries.collect();
        entries.sort_unstable();
        Self(entries.into())
    }

    /// Returns the keys and values, in the order of the keys.
    #[must_use]
    pub fn entries(&self) -> &[(String, String)] {
        &self.0
    }
}

/// The requests of a client in a bucket since its last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The bucket.
    pub bucket: BucketId,
    /// The requests that it has admitted.
    pub allowed: u64,
    /// The requests that it has refused.
    pub denied: u64,
}

/// The limit of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketLimit {
    /// None.
    Unlimited,
    /// At most this number of requests in any interval.
    Requests {
        /// The number of requests.
        requests: u32,
        /// The length of the interval. A fraction of a second is cut off; at least a second.
        window: Duration,
    },
}

/// The ask of a budget to the store of all instances: see [`Quotas::asks`](super::Quotas::asks).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShareAsk {
    /// The domain.
    pub domain: Arc<str>,
    /// The bucket.
    pub bucket: BucketId,
    /// The limit of all instances together.
    pub limit: u64,
    /// The interval of the limit.
    pub window: Duration,
    /// The requests that are charged now. A smaller share is of no use before some have ended.
    pub least: u64,
    /// The requests in an interval that the clients of this instance ask for.
    pub wanted: u64,
    /// For how long an assignment is charged: a share is of use as long as it lasts for longer.
    pub lasts: Duration,
}

/// An action that a client is told.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// It decides by this strategy from now on.
    Assign {
        /// The bucket.
        bucket: BucketId,
        /// The strategy.
        strategy: Strategy,
        /// The time for which it holds.
        ttl: Duration,
    },
    /// It forgets the bucket, and subscribes again with its next request.
    Abandon {
        /// The bucket.
        bucket: BucketId,
    },
}

/// Why a stream is refused, or its report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// This number of streams is open, the most.
    Streams(usize),
    /// All streams together have this number of buckets, the most.
    Subscriptions(usize),
    /// There is this number of budgets, the most, with the ones whose charges have not ended.
    Budgets(usize),
    /// The first report has no domain.
    NoDomain,
    /// The report is for another domain than the first one of the stream.
    OtherDomain(String),
    /// A bucket has no entries.
    EmptyBucket,
    /// The name of a bucket is longer than [`BucketId::MAX_BYTES`].
    LargeBucket,
    /// The stream is not open.
    Closed,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Streams(max) => write!(f, "{max} streams are open already, which is the most"),
            Self::Subscriptions(max) => {
                write!(f, "all streams have {max} buckets already, which is the most")
            }
            Self::Budgets(max) => {
                write!(f, "there are {max} budgets already, which is the most")
            }
            Self::NoDomain => f.write_str("the first report of a stream needs a domain"),
            Self::OtherDomain(domain) => {
                write!(f, "the stream reports on {domain:?}: open another one for another domain")
            }
            Self::EmptyBucket => f.write_str("a bucket needs a key with a value"),
            Self::LargeBucket => {
                write!(
                    f,
                    "the keys and values of a bucket have more than {} bytes",
                    BucketId::MAX_BYTES
                )
            }
            Self::Closed => f.write_str("the stream is closed"),
        }
    }
}

impl Error for Refused {}

/// Counts since the start, and what there is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaCounts {
    /// The open streams.
    pub streams: usize,
    /// The buckets of all streams.
    pub subscriptions: usize,
    /// The budgets, with those whose last charges have not ended.
    pub budgets: usize,
    /// The reports of single buckets.
    pub reports: u64,
    /// The assignments that were sent.
    pub assignments: u64,
    /// The buckets that were abandoned.
    pub abandoned: u64,
    /// The streams and reports that were refused.
    pub refused: u64,
    /// The requests that clients have admitted, by their reports.
    pub allowed: u64,
    /// The requests that clients have refused, by their reports.
    pub denied: u64,
}
