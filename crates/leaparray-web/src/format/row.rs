//! The counts of a node in one second or in one window.

use serde::de::SeqAccess;
use serde::ser::SerializeTuple;

use super::positional::{self, Positional, positional, serde_as_array};

positional! {
    /// The counts of one node, or of all nodes together, in one second or in one window. Serialized
    /// as an array in this order. Times are in nanoseconds.
    ///
    /// ```
    /// use leaparray_web::format::Counts;
    ///
    /// let json = "[3,2,0,0,1,null,2,2,9000000,4000000,null,null,null,null,5000000]";
    /// let counts: Counts = serde_json::from_str(json)?;
    /// assert_eq!((counts.pass, counts.success, counts.block), (3, 2, 1));
    /// assert_eq!((counts.in_flight, counts.p99, counts.max), (None, None, Some(5_000_000)));
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Counts {
        /// The requests that were let through.
        pub pass: u64,
        /// The requests that succeeded.
        pub success: u64,
        /// The requests that failed.
        pub exception: u64,
        /// The requests that were cancelled.
        pub cancelled: u64,
        /// The requests that were refused.
        pub block: u64,
        /// The requests in flight at the end of the second; `None` if it is not known, because the
        /// second was before the first viewer.
        pub in_flight: Option<u64>,
        /// The highest number of requests in flight that an entering request has found; 0 if no
        /// request has entered. For all nodes together, it is the highest of a single node.
        pub max_in_flight: u64,
        /// The number of response times.
        pub rt_count: u64,
        /// The sum of the response times.
        pub rt_sum: u64,
        /// The shortest response time; `None` if there is none.
        pub min: Option<u64>,
        /// The median of the response times; `None` if there is none, or no histogram of all of
        /// them, as for the other quantiles.
        pub p50: Option<u64>,
        /// The quantile 0.9.
        pub p90: Option<u64>,
        /// The quantile 0.99.
        pub p99: Option<u64>,
        /// The quantile 0.999.
        pub p999: Option<u64>,
        /// The longest response time; `None` if there is none.
        pub max: Option<u64>,
    }
}

/// The counts of one node in one second. Serialized as an array: the id, and then the [`Counts`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The id of the node: see [`Listed`](super::Listed).
    pub id: u64,
    /// The counts.
    pub counts: Counts,
}

impl Positional for Row {
    const LEN: usize = 1 + Counts::LEN;

    fn write<S: SerializeTuple>(&self, to: &mut S) -> Result<(), S::Error> {
        to.serialize_element(&self.id)?;
        self.counts.write(to)
    }

    fn read<'de, A: SeqAccess<'de>>(from: &mut A, read: &mut usize) -> Result<Self, A::Error> {
        let id = positional::next(from, read, "id")?;
        Ok(Self { id, counts: Counts::read(from, read)? })
    }
}

serde_as_array!(Row);

positional! {
    /// The refused requests of one node by reason. Serialized as an array: the id, and then a count
    /// for each of [`REASONS`](super::REASONS).
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Refused {
        /// The id of the node: see [`Listed`](super::Listed).
        pub id: u64,
        /// Refused because the limit was reached.
        pub limit_reached: u64,
        /// Refused because the wait would have been too long.
        pub wait_too_long: u64,
        /// Refused because the request asked for more than the limit.
        pub more_than_limit: u64,
        /// Refused because the backend failed too often.
        pub failing: u64,
        /// Refused for any other reason.
        pub other: u64,
        /// Refused because too many requests waited already.
        pub queue_full: u64,
    }
}
